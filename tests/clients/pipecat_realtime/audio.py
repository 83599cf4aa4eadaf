"""Pipecat's stock services for speech and transcriptions, without a pipeline.

Usage: audio.py BASE_URL TEXT. Speaks the text, transcribes the speech, prints a JSON object.
"""

import asyncio
import io
import json
import sys
import wave

from pipecat.frames.frames import ErrorFrame, TranscriptionFrame, TTSAudioRawFrame
from pipecat.services.openai.stt import OpenAISTTService
from pipecat.services.openai.tts import OpenAITTSService

RATE_HZ = 24_000


async def main(base_url, text):
    """One text there and back."""
    access = {"base_url": base_url, "api_key": "unused"}
    voice = OpenAITTSService(
        **access,
        sample_rate=RATE_HZ,
        settings=OpenAITTSService.Settings(voice="coral", speed=1.0, instructions="Friendly."),
    )
    voice._sample_rate = RATE_HZ  # is set by a pipeline's first frame
    errors, audio, heard = [], b"", []
    async for frame in voice.run_tts(text, "context"):
        if isinstance(frame, TTSAudioRawFrame):
            audio += frame.audio
        elif isinstance(frame, ErrorFrame):
            errors.append(frame.error)
    keywords = OpenAISTTService.Settings(keywords=["Sori"], prompt="A greeting.", temperature=0)
    for ears in (
        OpenAISTTService(**access, settings=keywords),
        OpenAISTTService(**access, include_prob_metrics=True),
    ):
        async for frame in ears.run_stt(wav(audio)):
            if isinstance(frame, TranscriptionFrame):
                heard.append(frame.text)
            elif isinstance(frame, ErrorFrame):
                errors.append(frame.error)
    print(json.dumps({"seconds": len(audio) / 2 / RATE_HZ, "heard": heard, "errors": errors}))


def wav(pcm):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE_HZ)
        out.writeframes(pcm)
    return file.getvalue()


asyncio.run(main(*sys.argv[1:]))
