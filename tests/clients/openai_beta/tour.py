"""A conversation in the dialect of the beta, through a stock `openai` package of that time.

Usage: tour.py BASE_URL name=value… (see `Tour.run`). Prints what happened as one JSON object.
"""

import sys

from microphone import options
from openai import OpenAI
from spoken_tour import TOOL, Tour

SESSION = {
    "modalities": ["text", "audio"],
    "voice": "verse",
    "input_audio_format": "pcm16",
    "input_audio_transcription": {"model": "whisper-1"},
    "turn_detection": {"type": "server_vad"},
    "temperature": 0.7,
    "tools": [TOOL],
}
TEXT_ONLY = {"modalities": ["text"]}


def main(base_url, max_tokens="inf", **given):
    """The whole tour."""
    limit = max_tokens if max_tokens == "inf" else int(max_tokens)
    sockets = base_url.replace("http", "ws", 1)  # else it takes wss: whatever the base URL says
    client = OpenAI(base_url=base_url, websocket_base_url=sockets, api_key="unused")
    with client.beta.realtime.connect(model="gpt-4o-realtime-preview") as connection:
        tour = Tour(connection, "response.audio.delta", TEXT_ONLY)
        tour.until("session.created")
        connection.session.update(session={**SESSION, "max_response_output_tokens": limit})
        session = tour.until("session.updated").session
        tour.told["session"] = [session.voice, session.modalities, session.temperature]
        tour.run(**given)


main(sys.argv[1], **options(sys.argv[2:]))
