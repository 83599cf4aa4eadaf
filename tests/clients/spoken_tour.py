"""What both generations of the synchronous `openai` package are led through.

Standard library only beside the client itself: it runs in the environment of each.
"""

import base64
import json
import threading
import time
from typing import Any

from microphone import OPENING_MS, STOP_MS, WISH_MS, Microphone

TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}
QUESTION = {"type": "input_text", "text": "How is the weather in Paris?"}


class Tour:
    """Reads events up to the awaited one, and notes what they tell.

    audio_delta: what the dialect calls a piece of the reply's sound.
    """

    def __init__(self, connection: Any, audio_delta: str) -> None:
        self.connection = connection
        self.told: dict[str, Any] = {"heard": [], "replies": [], "audio_bytes": 0}
        self._audio_delta = audio_delta

    def until(self, kind: str) -> Any:
        """The next event of this kind."""
        while True:
            event = self.connection.recv()
            self._note(event)
            if event.type == kind:
                return event

    def _note(self, event: Any) -> None:
        if event.type == "error":
            raise SystemExit(f"error from the server: {event.error}")
        if event.type == self._audio_delta:
            self.told["audio_bytes"] += len(base64.b64decode(event.delta))
        elif event.type == "conversation.item.input_audio_transcription.completed":
            self.told["heard"].append(event.transcript)
        elif event.type == "response.done":
            output = event.response.output
            parts = [part for item in output if item.type == "message" for part in item.content]
            said = "".join(part.transcript or part.text for part in parts)
            self.told["replies"].append({"status": event.response.status, "said": said})

    def run(self) -> None:
        """Two spoken turns, an interruption and a written question; then tell it all as JSON."""
        microphone, ended = Microphone(), threading.Event()
        streaming = threading.Thread(target=self._stream, args=(microphone, ended))
        streaming.start()
        try:
            self._speak(microphone)
            self._write()
        finally:
            ended.set()
            streaming.join()
        print(json.dumps(self.told))

    def _stream(self, microphone: Microphone, ended: threading.Event) -> None:
        while not ended.is_set():
            audio = base64.b64encode(microphone.block()).decode()
            self.connection.input_audio_buffer.append(audio=audio)
            time.sleep(microphone.left_s())

    def _speak(self, microphone: Microphone) -> None:
        microphone.say(OPENING_MS)
        self.until("response.done")
        microphone.say(WISH_MS)
        playing = self.until(self._audio_delta).item_id
        microphone.say(STOP_MS)
        self.until("response.done")
        truncate = self.connection.conversation.item.truncate
        truncate(item_id=playing, content_index=0, audio_end_ms=100)
        self.told["truncated_ms"] = self.until("conversation.item.truncated").audio_end_ms
        self.until("response.done")

    def _write(self) -> None:
        create, reply = self.connection.conversation.item.create, self.connection.response.create
        create(item={"type": "message", "role": "user", "content": [QUESTION]})
        reply()
        (call,) = self.until("response.done").response.output
        self.told["arguments"] = json.loads(call.arguments)
        create(item={"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})
        reply()
        self.until("response.done")
