"""A conversation through pipecat's stock `OpenAIRealtimeLLMService`, in a pipeline of its own.

Usage: tour.py URL_OF_THE_SOCKET. Prints what happened as one JSON object. Pipecat says written
words of the user only at the start of a conversation, so it begins with the question.
"""

import asyncio
import json
import sys

from loguru import logger
from microphone import OPENING_MS, RATE_HZ, STOP_MS, WISH_MS, Microphone
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
TOLD = {"heard": [], "replies": [], "audio_bytes": 0, "errors": []}
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
            TOLD["audio_bytes"] += len(frame.audio)
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


async def main(url):
    """A written question, two spoken turns, and an interruption."""
    transcription = events.InputAudioTranscription(model="gpt-4o-transcribe")
    detection = events.TurnDetection(type="server_vad")
    hearing = events.AudioInput(transcription=transcription, turn_detection=detection)
    properties = events.SessionProperties(
        audio=events.AudioConfiguration(input=hearing), tools=[TOOL], instructions="Be brief."
    )
    settings = OpenAIRealtimeLLMService.Settings(session_properties=properties)
    service = OpenAIRealtimeLLMService(api_key="unused", base_url=url, settings=settings)
    service.register_function("weather", weather)
    context = LLMContext([{"role": "user", "content": "How is the weather in Paris?"}])
    both = LLMContextAggregatorPair(context)
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
        await task.queue_frame(LLMRunFrame())
        await after.until(lambda: ended() == 1)
        streaming = asyncio.create_task(microphone.stream(send))
        microphone.say(OPENING_MS)
        await after.until(lambda: ended() == 2)
        microphone.say(WISH_MS)
        await after.until(lambda: len(TOLD["replies"]) == 3 and TOLD["replies"][2]["said"])
        microphone.say(STOP_MS)
        await after.until(lambda: len(TOLD["replies"]) == 4 and ended() == 4)
    streaming.cancel()
    await task.cancel()
    await running


logger.remove()
try:
    asyncio.run(main(sys.argv[1]))
finally:
    print(json.dumps(TOLD))
