"""The client's formats, there and back."""

from __future__ import annotations

import numpy as np
import pytest

from audio.codecs import CodecError, get_decoder
from audio.formats import OPUS, PCM, PCMA, PCMU, AudioFormat
from realtime.transcoding import MicrophoneDecoder, ReplyEncoder

FORMATS = [
    AudioFormat(PCM),
    AudioFormat(PCM, 16_000),
    AudioFormat(PCMU),
    AudioFormat(PCMA),
    AudioFormat(OPUS),
]


def tone(samples: int) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    wave = np.sin(2 * np.pi * 440 * np.arange(samples) / 24_000) * 8000
    return wave.astype(np.int16)


@pytest.mark.parametrize("audio_format", FORMATS, ids=str)
def test_a_reply_keeps_its_length_and_accounts_for_every_sample(audio_format: AudioFormat) -> None:
    encoder = ReplyEncoder(audio_format)
    pcm = tone(24_000)
    payloads = [p for first in range(0, 24_000, 4321) for p in encoder.encode(pcm[first:][:4321])]
    payloads += encoder.flush()

    decoder = get_decoder(audio_format)
    decoded = np.concatenate([decoder.decode(payload) for payload, _ in payloads])

    assert sum(samples for _, samples in payloads) == 24_000
    seconds = len(decoded) / audio_format.rate_hz
    assert 1.0 <= seconds <= 1.05
    assert np.sqrt(np.mean(decoded.astype(float) ** 2)) == pytest.approx(8000 / 2**0.5, rel=0.1)


def test_the_microphone_is_brought_to_16_khz() -> None:
    decoder = MicrophoneDecoder(AudioFormat(PCM))
    heard = np.concatenate([decoder.decode(tone(480).tobytes()) for _ in range(50)])

    assert 15_000 <= len(heard) <= 16_000


def test_a_bad_payload_leaves_the_stream_as_it_was() -> None:
    spoiled, clean = MicrophoneDecoder(AudioFormat(PCM)), MicrophoneDecoder(AudioFormat(PCM))
    payload = tone(4800).tobytes()
    spoiled.decode(payload)
    clean.decode(payload)

    with pytest.raises(CodecError, match="odd number"):
        spoiled.decode(payload[:-1])

    assert np.array_equal(spoiled.decode(payload), clean.decode(payload))
