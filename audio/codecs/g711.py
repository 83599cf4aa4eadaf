"""`audio/pcmu` and `audio/pcma`: ITU-T G.711, 8 kHz, one byte a sample, by table lookup.

Both laws cut the magnitude into eight segments of sixteen equal steps. The tables are computed
here from where each step begins and from the value it stands for, scaled to 16 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audio.codecs.codec import Decoder, Encoder
from audio.formats import PCMU, AudioFormat

Bytes = NDArray[np.uint8]
Samples = NDArray[np.int16]

_POSITIVE = 0x80
_MAGNITUDE_CODES = np.arange(128, dtype=np.int64)
_SEGMENT, _STEP = _MAGNITUDE_CODES >> 4, _MAGNITUDE_CODES & 15
_MAGNITUDE = np.abs(np.arange(-32768, 32768))  # of each sample, from the lowest to the highest


def _mu_law() -> tuple[Bytes, Samples]:
    """µ-law: steps of 2 at the origin doubling with each segment, in units of 14-bit samples."""
    begins = np.maximum(((2 * _STEP + 32) << _SEGMENT) - 33, 0) * 4
    values = (((2 * _STEP + 33) << _SEGMENT) - 33) * 4
    return _tables(begins, values, inverted=0x7F)


def _a_law() -> tuple[Bytes, Samples]:
    """A-law: the first two segments share one step size; a value lies mid-step."""
    shift = np.maximum(_SEGMENT - 1, 0)
    begins = (16 * _STEP + np.where(_SEGMENT > 0, 256, 0)) << shift
    values = begins + (8 << shift)
    return _tables(begins, values, inverted=0x55)


def _tables(
    begins: NDArray[np.int64], values: NDArray[np.int64], inverted: int
) -> tuple[Bytes, Samples]:
    """(byte of each sample indexed by its 16 bits as unsigned, sample of each byte).

    begins, values: of the 128 magnitude codes, rising. inverted: bits flipped on the line.
    """
    code = np.searchsorted(begins, _MAGNITUDE, side="right") - 1
    sign = np.where(np.arange(-32768, 32768) >= 0, _POSITIVE, 0)
    encode = np.empty(65536, np.uint8)
    encode[np.arange(-32768, 32768).astype(np.int16).view(np.uint16)] = (code ^ inverted) | sign
    byte = np.arange(256)
    magnitude = values[(byte & 0x7F) ^ inverted]
    decode = np.where(byte & _POSITIVE, magnitude, -magnitude).astype(np.int16)
    return encode, decode


_MU_LAW = _mu_law()
_A_LAW = _a_law()


def _tables_for(audio_format: AudioFormat) -> tuple[Bytes, Samples]:
    return _MU_LAW if audio_format.name == PCMU else _A_LAW


class G711Decoder(Decoder):
    """One sample for each byte; every byte is valid."""

    def __init__(self, audio_format: AudioFormat) -> None:
        super().__init__(audio_format)
        _, self._table = _tables_for(audio_format)

    def decode(self, payload: bytes) -> Samples:
        """As many samples as bytes."""
        return self._table[np.frombuffer(payload, np.uint8)]


class G711Encoder(Encoder):
    """One byte for each sample."""

    def __init__(self, audio_format: AudioFormat) -> None:
        super().__init__(audio_format)
        self._table, _ = _tables_for(audio_format)

    def encode(self, samples: Samples) -> list[bytes]:
        """One payload for all samples."""
        return [self._table[samples.view(np.uint16)].tobytes()] if samples.size else []
