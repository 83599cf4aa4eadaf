"""A conversation in the dialect of the beta, through a stock `openai` package of that time.

Usage: tour.py BASE_URL. Prints what happened as one JSON object.
"""

import base64
import json
import sys
import threading
import time

from microphone import OPENING_MS, STOP_MS, WISH_MS, Microphone
from openai import OpenAI

TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}
SESSION = {
    "modalities": ["text", "audio"],
    "voice": "verse",
    "input_audio_format": "pcm16",
    "input_audio_transcription": {"model": "whisper-1"},
    "turn_detection": {"type": "server_vad"},
    "temperature": 0.7,
    "tools": [TOOL],
}
QUESTION = {"type": "input_text", "text": "How is the weather in Paris?"}


def main(base_url):
    """Two spoken turns, an interruption, and a written question."""
    sockets = base_url.replace("http", "ws", 1)  # else it takes wss: whatever the base URL says
    client = OpenAI(base_url=base_url, websocket_base_url=sockets, api_key="unused")
    with client.beta.realtime.connect(model="gpt-4o-realtime-preview") as connection:
        tour = Tour(connection)
        tour.until("session.created")
        connection.session.update(session=SESSION)
        session = tour.until("session.updated").session
        tour.told["session"] = [session.voice, session.modalities, session.temperature]
        microphone, ended = Microphone(), threading.Event()
        streaming = threading.Thread(target=stream, args=(connection, microphone, ended))
        streaming.start()
        try:
            tour.speak(microphone)
            tour.write()
        finally:
            ended.set()
            streaming.join()
    print(json.dumps(tour.told))


def stream(connection, microphone, ended):
    while not ended.is_set():
        audio = base64.b64encode(microphone.block()).decode()
        connection.input_audio_buffer.append(audio=audio)
        time.sleep(microphone.left_s())


class Tour:
    """Reads events up to the awaited one, and notes what they tell."""

    def __init__(self, connection):
        self.connection = connection
        self.told = {"heard": [], "replies": [], "audio_bytes": 0}

    def until(self, kind):
        while True:
            event = self.connection.recv()
            self.note(event)
            if event.type == kind:
                return event

    def note(self, event):
        if event.type == "error":
            raise SystemExit(f"error from the server: {event.error}")
        if event.type == "response.audio.delta":
            self.told["audio_bytes"] += len(base64.b64decode(event.delta))
        elif event.type == "conversation.item.input_audio_transcription.completed":
            self.told["heard"].append(event.transcript)
        elif event.type == "response.done":
            output = event.response.output
            parts = [part for item in output if item.type == "message" for part in item.content]
            said = "".join(part.transcript or part.text for part in parts)
            self.told["replies"].append({"status": event.response.status, "said": said})

    def speak(self, microphone):
        microphone.say(OPENING_MS)
        self.until("response.done")
        microphone.say(WISH_MS)
        playing = self.until("response.audio.delta").item_id
        microphone.say(STOP_MS)
        self.until("response.done")
        truncate = self.connection.conversation.item.truncate
        truncate(item_id=playing, content_index=0, audio_end_ms=100)
        self.told["truncated_ms"] = self.until("conversation.item.truncated").audio_end_ms
        self.until("response.done")

    def write(self):
        create, reply = self.connection.conversation.item.create, self.connection.response.create
        create(item={"type": "message", "role": "user", "content": [QUESTION]})
        reply()
        (call,) = self.until("response.done").response.output
        self.told["arguments"] = json.loads(call.arguments)
        create(item={"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})
        reply()
        self.until("response.done")


main(sys.argv[1])
