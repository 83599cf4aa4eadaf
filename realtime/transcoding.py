"""Between the client's audio format and the engine's rates: both directions of one stream."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audio.codecs import get_decoder, get_encoder
from audio.formats import AudioFormat
from audio.resample import StreamResampler, resample_whole
from pipeline.messages import INPUT_RATE_HZ, OUTPUT_RATE_HZ


class MicrophoneDecoder:
    """Payloads in the client's format to 16 kHz samples."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self._decoder = get_decoder(audio_format)
        self._resampler = StreamResampler(audio_format.rate_hz, INPUT_RATE_HZ)

    def decode(self, payload: bytes) -> NDArray[np.int16]:
        """The samples that this payload completes. Raises CodecError, with nothing changed."""
        return self._resampler.process(self._decoder.decode(payload))


def encode_whole(samples: NDArray[np.int16], rate_hz: int, wanted: AudioFormat) -> bytes:
    """A finished piece of audio in the client's format, which must not be Opus."""
    encoder = get_encoder(wanted)
    payloads = encoder.encode(resample_whole(samples, rate_hz, wanted.rate_hz))
    return b"".join([*payloads, *encoder.flush()])


class ReplyEncoder:
    """24 kHz samples to payloads in the client's format."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self._resampler = StreamResampler(OUTPUT_RATE_HZ, audio_format.rate_hz)
        self._encoder = get_encoder(audio_format)
        # Samples at 24 kHz that were given, and that the payloads so far account for.
        self._given = 0
        self._told = 0

    def encode(self, pcm: NDArray[np.int16]) -> list[tuple[bytes, int]]:
        """Payloads that are complete now, each with the samples it accounts for."""
        self._given += len(pcm)
        return self._account(self._encoder.encode(self._resampler.process(pcm)))

    def flush(self) -> list[tuple[bytes, int]]:
        """The rest of the payloads."""
        tail = self._encoder.encode(self._resampler.flush())
        return self._account(tail + self._encoder.flush())

    def _account(self, payloads: list[bytes]) -> list[tuple[bytes, int]]:
        """Codec and resampler hold samples back; over a whole reply the counts are exact."""
        accounted = []
        for left, payload in zip(range(len(payloads), 0, -1), payloads, strict=True):
            samples = (self._given - self._told) // left
            self._told += samples
            accounted.append((payload, samples))
        return accounted
