"""A conversation through pipecat's stock `OpenAIRealtimeLLMService`, in a pipeline of its own.

Usage: tour.py URL_OF_THE_SOCKET name=value… with answer=FILE for all that is heard, max_tokens=… of
each reply, and speech=FILE to speak instead of all the rest. Prints what happened as one JSON
object. Pipecat says written words of the user only at the start of a conversation, so it begins
with the question.
"""

import asyncio
import json
import sys

from loguru import logger
from microphone import OPENING_MS, RATE_HZ, STOP_MS, WISH_MS, Microphone, options, write
from pipecat.frames.frames import (
    ErrorFrame,
    InputAudioRawFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMRunFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

PATIENCE_S = 25
TOLD = {"heard": [], "replies": [], "errors": []}
TOOL = {
    "type": "function",
    "name": "weather",
    "description": "How the weather is.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


class Tap(FrameProcessor):
    """Notes what passes, in both directions."""

    def __init__(self):
        super().__init__()
        self.audio = b""
        self.changed = asyncio.Condition()

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        self.note(frame, direction)
        async with self.changed:
            self.changed.notify_all()
        await self.push_frame(frame, direction)

    def note(self, frame, direction):
        if isinstance(frame, ErrorFrame):
            TOLD["errors"].append(frame.error)
        elif isinstance(frame, TranscriptionFrame) and direction is FrameDirection.UPSTREAM:
            TOLD["heard"].append(frame.text)
        elif isinstance(frame, TTSAudioRawFrame):
            self.audio += frame.audio
        elif isinstance(frame, LLMFullResponseStartFrame):
            if not TOLD["replies"] or TOLD["replies"][-1]["said"]:
                TOLD["replies"].append({"said": "", "ended": False})
        elif isinstance(frame, TTSTextFrame):
            TOLD["replies"][-1]["said"] += frame.text
        elif isinstance(frame, LLMFullResponseEndFrame):
            TOLD["replies"][-1]["ended"] = bool(TOLD["replies"][-1]["said"])

    async def until(self, condition):
        async with self.changed:
            await self.changed.wait_for(condition)


def ended():
    return sum(reply["ended"] for reply in TOLD["replies"])


async def weather(params):
    TOLD["arguments"] = dict(params.arguments)
    await params.result_callback("sunny")


async def main(url, answer, speech="", max_tokens="inf"):
    """The whole conversation, or one turn of `speech`."""
    transcription = events.InputAudioTranscription(model="gpt-4o-transcribe")
    detection = events.TurnDetection(type="server_vad")
    hearing = events.AudioInput(transcription=transcription, turn_detection=detection)
    properties = events.SessionProperties(
        audio=events.AudioConfiguration(input=hearing),
        tools=[TOOL],
        instructions="Be brief.",
        max_output_tokens=max_tokens if max_tokens == "inf" else int(max_tokens),
    )
    settings = OpenAIRealtimeLLMService.Settings(session_properties=properties)
    service = OpenAIRealtimeLLMService(api_key="unused", base_url=url, settings=settings)
    service.register_function("weather", weather)
    said = []

    @service.event_handler("on_conversation_item_created")
    async def created(service, item_id, item):
        if item.role == "assistant":
            said.append(item_id)

    question = {"role": "user", "content": "How is the weather in Paris?"}
    both = LLMContextAggregatorPair(LLMContext([] if speech else [question]))
    before, after = Tap(), Tap()
    pipeline = Pipeline([both.user(), before, service, after, both.assistant()])
    task = PipelineWorker(pipeline, params=PipelineParams(audio_in_sample_rate=RATE_HZ))
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(task)
    running = asyncio.create_task(runner.run())
    microphone = Microphone()

    async def send(block):
        await task.queue_frame(InputAudioRawFrame(block, RATE_HZ, 1))

    async with asyncio.timeout(PATIENCE_S):
        streaming = asyncio.create_task(microphone.stream(send))
        if speech:
            microphone.play(speech)
            await after.until(lambda: ended() == 1)
        else:
            await task.queue_frame(LLMRunFrame())
            await after.until(lambda: ended() == 1)
            await speak(microphone, after)
            story = await service.retrieve_conversation_item(said[2])
            TOLD["left_of_the_story"] = story.content[0].transcript
    streaming.cancel()
    await task.cancel()
    await running
    write(answer, after.audio)


async def speak(microphone, after):
    """Two spoken turns, and an interruption."""
    microphone.say(OPENING_MS)
    await after.until(lambda: ended() == 2)
    microphone.say(WISH_MS)
    # Of three seconds of audio, which comes two seconds ahead, some words have been played.
    heard = len(after.audio)
    await after.until(lambda: len(after.audio) > heard + 3 * RATE_HZ * 2)
    microphone.say(STOP_MS)
    await after.until(lambda: len(TOLD["replies"]) == 4 and ended() == 4)


logger.remove()
try:
    asyncio.run(main(sys.argv[1], **options(sys.argv[2:])))
finally:
    print(json.dumps(TOLD))
