"""A conversation through the stock `openai` package, in its synchronous form.

Usage: tour.py BASE_URL name=value… (see `Tour.run`). Prints what happened as one JSON object.
"""

import sys

from microphone import options
from openai import OpenAI
from spoken_tour import TOOL, Tour

TEXT_ONLY = {"output_modalities": ["text"]}


def main(base_url, encoding="audio/pcm", max_tokens="inf", **given):
    """The whole tour."""
    wire = {"type": encoding, "rate": 24_000} if encoding == "audio/pcm" else {"type": encoding}
    hearing = {
        "format": wire,
        "transcription": {"model": "whisper-1"},
        "turn_detection": {"type": "server_vad"},
    }
    session = {
        "type": "realtime",
        "audio": {"input": hearing, "output": {"format": wire}},
        "max_output_tokens": max_tokens if max_tokens == "inf" else int(max_tokens),
        "tools": [TOOL],
    }
    client = OpenAI(base_url=base_url, api_key="unused")
    with client.realtime.connect(model="gpt-realtime") as connection:
        tour = Tour(connection, "response.output_audio.delta", TEXT_ONLY)
        tour.until("session.created")
        connection.session.update(session=session)
        tour.until("session.updated")
        tour.run(encoding=encoding, **given)


main(sys.argv[1], **options(sys.argv[2:]))
