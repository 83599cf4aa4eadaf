"""Livekit's stock `openai.TTS` and `openai.STT`, without a room.

Usage: audio.py BASE_URL TEXT. Speaks the text, transcribes the speech, prints a JSON object.
"""

import asyncio
import json
import sys

from livekit.plugins import openai

TOLD = {}


async def main(base_url, text):
    """Each model name makes the plugin use another form of the API."""
    for model in ("tts-1", "gpt-4o-mini-tts"):
        voice = openai.TTS(model=model, voice="coral", base_url=base_url, api_key="unused")
        frames = [audio.frame async for audio in voice.synthesize(text)]
        TOLD[model] = sum(frame.samples_per_channel for frame in frames) / frames[0].sample_rate
        await voice.aclose()
    for model in ("whisper-1", "gpt-4o-mini-transcribe", "gpt-transcribe"):
        ears = openai.STT(model=model, base_url=base_url, api_key="unused", use_realtime=False)
        heard = await ears.recognize(frames)
        TOLD[model] = heard.alternatives[0].text
        await ears.aclose()
    print(json.dumps(TOLD))


asyncio.run(main(*sys.argv[1:]))
