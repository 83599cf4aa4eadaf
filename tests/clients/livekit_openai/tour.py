"""A conversation through livekit's stock `openai.realtime.RealtimeModel`, without a room.

Usage: tour.py BASE_URL. Prints what happened as one JSON object.
"""

import asyncio
import json
import sys

import aiohttp
from livekit import rtc
from livekit.agents import function_tool, llm
from livekit.plugins.openai.realtime import RealtimeModel
from microphone import OPENING_MS, RATE_HZ, STOP_MS, WISH_MS, Microphone
from openai.types.beta.realtime.session import InputAudioTranscription, TurnDetection

PATIENCE_S = 25
TOLD = {"heard": [], "replies": [], "audio_bytes": 0, "errors": []}


@function_tool
async def weather(city: str) -> str:
    """How the weather is."""
    return "sunny"


class Guide:
    """Reads every reply, and notes what the session tells."""

    def __init__(self, session):
        self.session = session
        self.playing = None
        self.reading = set()
        self.changed = asyncio.Condition()
        session.on("input_audio_transcription_completed", self.hear)
        session.on("generation_created", self.begin)
        session.on("error", lambda event: TOLD["errors"].append(str(event.error)))

    def hear(self, event):
        if event.is_final:
            TOLD["heard"].append(event.transcript)

    def begin(self, generation):
        reply = {"said": "", "calls": [], "ended": False}
        TOLD["replies"].append(reply)
        task = asyncio.create_task(self.read(generation, reply))
        self.reading.add(task)
        task.add_done_callback(self.reading.discard)

    async def read(self, generation, reply):
        async for message in generation.message_stream:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.read_text(message, reply))
                group.create_task(self.read_audio(message))
        async for call in generation.function_stream:
            reply["calls"].append(call)
        reply["ended"] = True
        async with self.changed:
            self.changed.notify_all()

    async def read_text(self, message, reply):
        async for text in message.text_stream:
            reply["said"] += text

    async def read_audio(self, message):
        async for frame in message.audio_stream:
            self.playing = message.message_id
            TOLD["audio_bytes"] += len(frame.data) * 2
            async with self.changed:
                self.changed.notify_all()

    async def until(self, condition):
        async with self.changed, asyncio.timeout(PATIENCE_S):
            await self.changed.wait_for(condition)

    async def ended(self, count):
        await self.until(lambda: sum(reply["ended"] for reply in TOLD["replies"]) >= count)


async def converse(session):
    """Two spoken turns, an interruption, and a written question."""
    guide, microphone = Guide(session), Microphone()

    async def send(block):
        session.push_audio(rtc.AudioFrame(block, RATE_HZ, 1, len(block) // 2))

    await session.update_instructions("Be brief.")
    await session.update_tools([weather])
    streaming = asyncio.create_task(microphone.stream(send))
    microphone.say(OPENING_MS)
    await guide.ended(1)
    first = guide.playing
    microphone.say(WISH_MS)
    await guide.until(lambda: guide.playing != first)
    session.once("input_speech_started", lambda _: session.interrupt())
    story = guide.playing
    microphone.say(STOP_MS)
    await guide.ended(2)
    session.truncate(message_id=story, modalities=["audio"], audio_end_ms=100)
    await guide.ended(3)
    context = session.chat_ctx.copy()
    context.add_message(role="user", content="How is the weather in Paris?")
    await session.update_chat_ctx(context)
    await session.generate_reply()
    await guide.ended(4)
    (call,) = TOLD["replies"][3]["calls"]
    TOLD["arguments"] = json.loads(call.arguments)
    context = session.chat_ctx.copy()
    context.items.append(
        llm.FunctionCallOutput(call_id=call.call_id, output="sunny", is_error=False)
    )
    await session.update_chat_ctx(context)
    await session.generate_reply()
    await guide.ended(5)
    streaming.cancel()
    TOLD["history"] = [item.type for item in session.chat_ctx.items]


async def main(base_url):
    """Open a session, and close it."""
    async with aiohttp.ClientSession() as http:
        model = RealtimeModel(
            base_url=base_url,
            api_key="unused",
            http_session=http,
            input_audio_transcription=InputAudioTranscription(model="gpt-4o-mini-transcribe"),
            turn_detection=TurnDetection(type="server_vad"),
        )
        session = model.session()
        try:
            await converse(session)
        finally:
            await session.aclose()
            await model.aclose()


try:
    asyncio.run(main(sys.argv[1]))
finally:
    for reply in TOLD["replies"]:
        del reply["calls"]
    print(json.dumps(TOLD))
