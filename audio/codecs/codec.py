"""What every codec of the wire offers: bytes to samples and back, with state for one stream."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from audio.formats import AudioFormat


class CodecError(ValueError):
    """A payload that is not what its format says. The decoder is as it was before."""


class Decoder(ABC):
    """Payloads of one stream to mono samples."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self.format = audio_format

    @abstractmethod
    def decode(self, payload: bytes) -> NDArray[np.int16]:
        """Samples at `format.rate_hz`; may be a read-only view of the payload.

        Raises CodecError.
        """

    def reset(self) -> None:  # noqa: B027  most codecs have no state
        """Make ready for an unrelated stream."""


class Encoder(ABC):
    """Mono samples to payloads of one stream.

    padding_samples: silence that the last `flush` added after the samples it was given.
    """

    padding_samples = 0

    def __init__(self, audio_format: AudioFormat) -> None:
        self.format = audio_format

    @abstractmethod
    def encode(self, samples: NDArray[np.int16]) -> list[bytes]:
        """Payloads that are complete now, each to be sent by itself; perhaps none yet."""

    def flush(self) -> list[bytes]:
        """What is left of the stream; the encoder is then ready for another one."""
        return []

    def reset(self) -> None:  # noqa: B027
        """Drop what is left and make ready for an unrelated stream."""
