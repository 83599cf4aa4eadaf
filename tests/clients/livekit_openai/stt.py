"""Two utterances written down by livekit's stock `openai.STT`, streamed to a transcription session.

Usage: stt.py BASE_URL. Prints what happened as one JSON object.
"""

import asyncio
import json
import sys

from livekit import rtc
from livekit.agents import stt, utils
from livekit.plugins import openai
from microphone import OPENING_MS, RATE_HZ, WISH_MS, Microphone

PATIENCE_S = 20
TOLD = {"heard": [], "kinds": []}


async def main(base_url):
    """Speak, and wait for the words."""
    transcriber = openai.STT(
        base_url=base_url,
        api_key="unused",
        model="gpt-4o-mini-transcribe",
        use_realtime=True,
        turn_detection={"type": "server_vad", "silence_duration_ms": 300},
    )
    microphone = Microphone()
    async with (
        asyncio.timeout(PATIENCE_S),
        utils.http_context.open(),
        transcriber.stream() as stream,
    ):

        async def send(block):
            stream.push_frame(rtc.AudioFrame(block, RATE_HZ, 1, len(block) // 2))

        streaming = asyncio.create_task(microphone.stream(send))
        microphone.say(OPENING_MS)
        async for event in stream:
            TOLD["kinds"].append(event.type)
            if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT:
                TOLD["heard"].append(event.alternatives[0].text)
                if len(TOLD["heard"]) == 2:
                    break
                microphone.say(WISH_MS)
        streaming.cancel()
    await transcriber.aclose()


try:
    asyncio.run(main(sys.argv[1]))
finally:
    print(json.dumps(TOLD))
