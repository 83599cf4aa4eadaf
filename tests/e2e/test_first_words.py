"""The first word of a turn is not lost, however soon after the silence it comes."""

from __future__ import annotations

import base64
import re
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray
from speech_scoring import Recording, recordings

from audio.encoding import encode_file
from bench.client import RealtimeClient, open_client
from bench.clips import CLIP_RATE_HZ
from bench.server import Server

pytestmark = [pytest.mark.models, pytest.mark.timeout(240)]

LEADS_MS = (0, 100, 300)
TAIL_MS = 1500
PIECE_SAMPLES = 2400  # 100 ms at 24 kHz
COMPLETED = "conversation.item.input_audio_transcription.completed"
LISTENING = {
    "audio": {
        "input": {
            "transcription": {"model": "whisper-1"},
            "turn_detection": {"type": "semantic_vad", "create_response": False},
        }
    }
}


def has_first_word(recording: Recording, heard: str) -> bool:
    """Digits stand for their words; "and" may be "an"."""
    first = recording.transcript.split()[0]
    digits = {"ten": "10", "seven": "7", "eight": "8"}
    words = re.findall(r"[a-z0-9']+", heard.lower())[:2]
    return first in words or digits.get(first) in words


async def transcribe(client: RealtimeClient, samples: NDArray[np.int16]) -> str:
    """Append it all at once: turns are found by counting samples, not by the clock."""
    since = len(client.events)
    for at in range(0, len(samples), PIECE_SAMPLES):
        audio = base64.b64encode(client.wire.encode(samples[at : at + PIECE_SAMPLES])).decode()
        await client.send({"type": "input_audio_buffer.append", "audio": audio})
    done = await client.wait_for(COMPLETED, 30, since)
    return str(done.event["transcript"])


async def test_first_words_are_heard_as_often_as_by_whisper_alone(model_server: Server) -> None:
    whole: list[bool] = []
    streamed: dict[int, list[bool]] = {lead_ms: [] for lead_ms in LEADS_MS}
    url = f"{model_server.url}/v1/audio/transcriptions"
    for recording in recordings():
        wav = encode_file("wav", recording.samples, CLIP_RATE_HZ)
        form: Any = {"file": ("clip.wav", wav), "model": (None, "sori")}
        async with httpx.AsyncClient() as http:
            alone = (await http.post(url, files=form)).json()["text"]
        whole.append(has_first_word(recording, alone))
        start = recording.speech_start_ms * CLIP_RATE_HZ // 1000
        for lead_ms in LEADS_MS:
            silence = np.zeros(lead_ms * CLIP_RATE_HZ // 1000, np.int16)
            tail = np.zeros(TAIL_MS * CLIP_RATE_HZ // 1000, np.int16)
            # What lies before the voice is cut away, but for a breath.
            voice = recording.samples[max(start - CLIP_RATE_HZ // 50, 0) :]
            async with open_client(model_server.realtime_url, session=LISTENING) as client:
                clip = client.wire.from_clip(np.concatenate([silence, voice, tail]))
                heard = await transcribe(client, clip)
            streamed[lead_ms].append(has_first_word(recording, heard))
    assert sum(whole) >= 5
    for lead_ms, found in streamed.items():
        assert sum(found) >= sum(whole), f"{lead_ms} ms of silence before: {found}, not {whole}"
