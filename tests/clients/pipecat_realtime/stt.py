"""Two utterances written down by pipecat's stock `OpenAIRealtimeSTTService`, with the server's VAD.

Usage: stt.py URL_OF_THE_SOCKET. Prints what happened as one JSON object.
"""

import asyncio
import json
import sys

from loguru import logger
from microphone import OPENING_MS, RATE_HZ, WISH_MS, Microphone
from pipecat.frames.frames import ErrorFrame, InputAudioRawFrame, TranscriptionFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.stt import OpenAIRealtimeSTTService
from pipecat.workers.runner import WorkerRunner

PATIENCE_S = 20
TOLD = {"heard": [], "errors": []}


class Tap(FrameProcessor):
    """Notes what passes."""

    def __init__(self):
        super().__init__()
        self.changed = asyncio.Condition()

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        if isinstance(frame, ErrorFrame):
            TOLD["errors"].append(frame.error)
        elif isinstance(frame, TranscriptionFrame):
            TOLD["heard"].append(frame.text)
            async with self.changed:
                self.changed.notify_all()
        await self.push_frame(frame, direction)

    async def heard(self, count):
        async with self.changed:
            await self.changed.wait_for(lambda: len(TOLD["heard"]) >= count)


async def main(url):
    """Speak, and wait for the words."""
    service = OpenAIRealtimeSTTService(
        api_key="unused", base_url=url, turn_detection={"type": "server_vad"}
    )
    before, after = Tap(), Tap()
    params = PipelineParams(audio_in_sample_rate=RATE_HZ)
    worker = PipelineWorker(Pipeline([before, service, after]), params=params)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    microphone = Microphone()

    async def send(block):
        await worker.queue_frame(InputAudioRawFrame(block, RATE_HZ, 1))

    streaming = asyncio.create_task(microphone.stream(send))
    async with asyncio.timeout(PATIENCE_S):
        microphone.say(OPENING_MS)
        await after.heard(1)
        microphone.say(WISH_MS)
        await after.heard(2)
    streaming.cancel()
    await worker.cancel()
    await running


logger.remove()
try:
    asyncio.run(main(sys.argv[1]))
finally:
    print(json.dumps(TOLD))
