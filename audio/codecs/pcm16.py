"""`audio/pcm`: signed 16-bit little-endian samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audio.codecs.codec import CodecError, Decoder, Encoder

_WIRE = np.dtype("<i2")


class Pcm16Decoder(Decoder):
    """Reinterprets bytes; keeps no state, so a payload must hold whole samples."""

    def decode(self, payload: bytes) -> NDArray[np.int16]:
        """A view of the payload, without a copy."""
        if len(payload) % 2:
            raise CodecError(
                f"{self.format.name} holds 16-bit samples, got an odd number of bytes "
                f"({len(payload)})"
            )
        return np.frombuffer(payload, _WIRE).astype(np.int16, copy=False)


class Pcm16Encoder(Encoder):
    """Reinterprets samples."""

    def encode(self, samples: NDArray[np.int16]) -> list[bytes]:
        """One payload for all samples."""
        return [samples.astype(_WIRE, copy=False).tobytes()] if samples.size else []
