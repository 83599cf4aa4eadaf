"""A conversation through the stock `openai` package, in its synchronous form.

Usage: tour.py BASE_URL. Prints what happened as one JSON object.
"""

import sys

from openai import OpenAI
from spoken_tour import TOOL, Tour

SESSION = {
    "type": "realtime",
    "audio": {
        "input": {"transcription": {"model": "whisper-1"}, "turn_detection": {"type": "server_vad"}}
    },
    "tools": [TOOL],
}


def main(base_url):
    """The whole tour."""
    client = OpenAI(base_url=base_url, api_key="unused")
    with client.realtime.connect(model="gpt-realtime") as connection:
        tour = Tour(connection, "response.output_audio.delta")
        tour.until("session.created")
        connection.session.update(session=SESSION)
        tour.until("session.updated")
        tour.run()


main(sys.argv[1])
