"""What both generations of the synchronous `openai` package are led through.

Standard library only beside the client itself: it runs in the environment of each.
"""

import base64
import json
import threading
import time
from typing import Any

from microphone import OPENING_MS, STOP_MS, WISH_MS, Microphone, write

TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}


class Tour:
    """Reads events up to the awaited one, and notes what they tell.

    audio_delta: what the dialect calls a piece of the reply's sound. text_only: what it says of a
    response that is not to be spoken.
    """

    def __init__(self, connection: Any, audio_delta: str, text_only: dict[str, Any]) -> None:
        self.connection = connection
        self.told: dict[str, Any] = {"heard": [], "replies": []}
        self._audio_delta = audio_delta
        self._text_only = text_only
        self._audio = b""

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
            self._audio += base64.b64decode(event.delta)
        elif event.type == "conversation.item.input_audio_transcription.completed":
            self.told["heard"].append(event.transcript)
        elif event.type == "response.done":
            output = event.response.output
            parts = [part for item in output if item.type == "message" for part in item.content]
            said = "".join(part.transcript or part.text for part in parts)
            self.told["replies"].append({"status": event.response.status, "said": said})

    def run(self, answer: str, speech: str = "", encoding: str = "audio/pcm") -> None:
        """The whole conversation, or one turn of `speech`; then tell what happened as JSON.

        answer: file for all that was heard. speech: a recording's file. encoding: of both.
        """
        microphone, ended = Microphone(encoding), threading.Event()
        streaming = threading.Thread(target=self._stream, args=(microphone, ended))
        streaming.start()
        try:
            if speech:
                microphone.play(speech)
                self.until("response.done")
            else:
                self._speak(microphone)
                self._write()
        finally:
            ended.set()
            streaming.join()
        write(answer, self._audio)
        print(json.dumps(self.told))

    def _stream(self, microphone: Microphone, ended: threading.Event) -> None:
        while not ended.is_set():
            audio = base64.b64encode(microphone.block()).decode()
            self.connection.input_audio_buffer.append(audio=audio)
            time.sleep(microphone.left_s())

    def _speak(self, microphone: Microphone) -> None:
        """Two spoken turns and an interruption."""
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
        """A question that takes a tool, and one that is answered in writing."""
        (call,) = self._ask("How is the weather in Paris?").output
        self.told["arguments"] = json.loads(call.arguments)
        self._bring({"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})
        heard = len(self._audio)
        (written,) = self._ask("Write it down.", **self._text_only).output
        self.told["written"] = [part.text for part in written.content]
        self.told["sound_of_the_written"] = len(self._audio) - heard

    def _ask(self, text: str, **response: Any) -> Any:
        content = [{"type": "input_text", "text": text}]
        return self._bring({"type": "message", "role": "user", "content": content}, **response)

    def _bring(self, item: dict[str, Any], **response: Any) -> Any:
        """The response to an item."""
        self.connection.conversation.item.create(item=item)
        self.connection.response.create(response=response)
        return self.until("response.done").response
