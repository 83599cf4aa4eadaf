"""A conversation through livekit's stock `openai.realtime.RealtimeModel`, without a room.

Usage: tour.py BASE_URL name=value… with answer=FILE for all that is heard, max_tokens=… of each
reply, and speech=FILE to speak instead of all the rest. Prints what happened as one JSON object.
"""

import asyncio
import json
import sys

import aiohttp
from livekit import rtc
from livekit.agents import function_tool, llm
from livekit.plugins.openai.realtime import RealtimeModel
from microphone import OPENING_MS, RATE_HZ, STOP_MS, WISH_MS, Microphone, options, write
from openai.types.beta.realtime.session import InputAudioTranscription, TurnDetection

PATIENCE_S = 25
TOLD = {"heard": [], "replies": [], "truncated_ms": [], "errors": []}


@function_tool
async def weather(city: str) -> str:
    """How the weather is."""
    return "sunny"


class Guide:
    """Reads every reply, and notes what the session tells."""

    def __init__(self, session):
        self.session = session
        self.playing = None
        self.audio = b""
        self.reading = set()
        self.changed = asyncio.Condition()
        session.on("input_audio_transcription_completed", self.hear)
        session.on("generation_created", self.begin)
        session.on("openai_server_event_received", self.note)
        session.on("error", lambda event: TOLD["errors"].append(str(event.error)))

    def hear(self, event):
        if event.is_final:
            TOLD["heard"].append(event.transcript)

    def note(self, event):
        if event["type"] == "conversation.item.truncated":
            TOLD["truncated_ms"].append(event["audio_end_ms"])

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
            self.audio += bytes(frame.data)
            async with self.changed:
                self.changed.notify_all()

    async def until(self, condition):
        async with self.changed, asyncio.timeout(PATIENCE_S):
            await self.changed.wait_for(condition)

    async def ended(self, count):
        await self.until(lambda: sum(reply["ended"] for reply in TOLD["replies"]) >= count)


async def converse(session, answer, speech=""):
    """The whole conversation, or one turn of `speech`."""
    guide, microphone = Guide(session), Microphone()

    async def send(block):
        session.push_audio(rtc.AudioFrame(block, RATE_HZ, 1, len(block) // 2))

    await session.update_instructions("Be brief.")
    await session.update_tools([weather])
    streaming = asyncio.create_task(microphone.stream(send))
    if speech:
        microphone.play(speech)
        await guide.ended(1)
    else:
        await speak(session, guide, microphone)
    streaming.cancel()
    write(answer, guide.audio)
    TOLD["history"] = [item.type for item in session.chat_ctx.items]


async def ask(session, text):
    """In writing."""
    context = session.chat_ctx.copy()
    context.add_message(role="user", content=text)
    await session.update_chat_ctx(context)
    await session.generate_reply()


async def speak(session, guide, microphone):
    """Two spoken turns, an interruption, and a written question."""
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
    await ask(session, "How is the weather in Paris?")
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


async def main(base_url, max_tokens=None, **given):
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
        if max_tokens:
            session.update_options(max_response_output_tokens=int(max_tokens))
        try:
            await converse(session, **given)
        finally:
            await session.aclose()
            await model.aclose()


try:
    asyncio.run(main(sys.argv[1], **options(sys.argv[2:])))
finally:
    for reply in TOLD["replies"]:
        del reply["calls"]
    print(json.dumps(TOLD))
