"""A conversation through the stock `openai-agents` package, which runs the tool by itself.

Usage: tour.py URL_OF_THE_SOCKET name=value… with answer=FILE for all that is heard, max_tokens=… of
each reply, and speech=FILE to speak instead of all the rest. Prints what happened as one JSON
object.
"""

import asyncio
import json
import sys

from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeRunner
from microphone import OPENING_MS, STOP_MS, WISH_MS, Microphone, options, write

PATIENCE_S = 20
TOLD = {"heard": [], "replies": [], "interrupted": 0, "truncated_ms": []}


@function_tool
def weather(city: str) -> str:
    """How the weather is."""
    TOLD["arguments"] = {"city": city}
    return "sunny"


async def main(url, answer, speech="", max_tokens=None):
    """The whole conversation, or one turn of `speech`."""
    agent = RealtimeAgent(name="Guide", instructions="Be brief.", tools=[weather])
    settings = {"input_audio_transcription": {"model": "gpt-4o-mini-transcribe"}}
    if max_tokens:
        settings["max_output_tokens"] = int(max_tokens)
    model = {"url": url, "api_key": "unused", "initial_model_settings": settings}
    session = await RealtimeRunner(agent).run(model_config=model)
    async with session, asyncio.timeout(PATIENCE_S):
        microphone, notes = Microphone(), Notes(session)
        reading = asyncio.create_task(notes.read())
        streaming = asyncio.create_task(microphone.stream(session.send_audio))
        await notes.ended("session.updated")
        if speech:
            microphone.play(speech)
            await notes.ended("response.done")
        else:
            await speak(session, microphone, notes)
        streaming.cancel()
        reading.cancel()
    write(answer, notes.audio)
    TOLD["history"] = [item.role for item in session._history if item.type == "message"]


async def speak(session, microphone, notes):
    """Two spoken turns, an interruption, and a written question."""
    microphone.say(OPENING_MS)
    await notes.ended("response.done")
    microphone.say(WISH_MS)
    await notes.ended("response.output_audio.delta", after=1)
    microphone.say(STOP_MS)
    await notes.ended("response.done", count=3)
    await session.send_message("How is the weather in Paris?")
    await notes.ended("response.done", count=5)


class Notes:
    """Reads the session's events, and notes what they tell."""

    def __init__(self, session):
        self.session = session
        self.seen = []
        self.audio = b""
        self.changed = asyncio.Condition()

    async def ended(self, kind, count=1, after=0):
        """Wait for the event; `after` so many responses."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.counts(kind, after) >= count)

    def counts(self, kind, after):
        seen = self.seen
        for _ in range(after):
            if "response.done" not in seen:
                return 0
            seen = seen[seen.index("response.done") + 1 :]
        return seen.count(kind)

    async def read(self):
        try:
            async for event in self.session:
                self.note(event)
                async with self.changed:
                    self.changed.notify_all()
        except BaseException as error:
            TOLD["stopped"] = repr(error)
            raise

    def note(self, event):
        if event.type == "error":
            raise SystemExit(f"error: {event.error}")
        if event.type == "audio":
            self.audio += event.audio.data
        elif event.type == "audio_interrupted":
            TOLD["interrupted"] += 1
        elif event.type == "raw_model_event":
            self.note_model(event.data)

    def note_model(self, event):
        if event.type == "input_audio_transcription_completed":
            TOLD["heard"].append(event.transcript)
        if event.type != "raw_server_event":
            return
        data = event.data
        self.seen.append(data["type"])
        if data["type"] == "conversation.item.truncated":
            TOLD["truncated_ms"].append(data["audio_end_ms"])
        elif data["type"] == "response.done":
            parts = [
                part for item in data["response"]["output"] for part in item.get("content", ())
            ]
            said = "".join(part.get("transcript", "") for part in parts)
            TOLD["replies"].append({"status": data["response"]["status"], "said": said})


try:
    asyncio.run(main(sys.argv[1], **options(sys.argv[2:])))
finally:
    print(json.dumps(TOLD))
