"""Puts a mark into a stream of generated speech.

Each cell of the grid is made a little louder or softer. Nothing is added, so silence stays silent,
and the mark is hidden by the sound that carries it. It is the spread spectrum in the logarithm of
the magnitudes of Kirovski and Malvar ("Spread-spectrum watermarking of audio signals", IEEE
Transactions on Signal Processing 51(4), 2003), with the frames and bands of `grid`.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from audio.watermark.grid import BAND_EDGES, BINS, HOP, PERIOD_FRAMES, SINE, WINDOW
from audio.watermark.pattern import frame_signs

STRENGTH_DB = 2.3
"""So much a cell is raised or lowered."""

Samples = NDArray[np.int16]


class Watermark(Protocol):
    """Marks one stream. The output is the same however the stream is cut into pieces."""

    def process(self, samples: Samples) -> Samples:
        """What these samples complete, marked: all but the last 20 ms at most."""

    def flush(self) -> Samples:
        """The rest. Together as many samples came out as went in."""


class Embedder:
    """The mark of a key and a 16-bit payload, in 24 kHz mono int16.

    Raises ValueError for an empty key or a payload out of range.
    """

    def __init__(self, key: bytes, payload: int) -> None:
        self._gains = _gains(key, payload)
        self._frame = 0
        # The stream begins in the middle of its first frame.
        self._pending = np.zeros(HOP)
        self._overlap = np.zeros(HOP)
        self._skip = HOP
        self._taken = self._given = 0

    def process(self, samples: Samples) -> Samples:
        """As `Watermark`."""
        self._taken += len(samples)
        return self._run(samples.astype(np.float64))

    def flush(self) -> Samples:
        """As `Watermark`."""
        rest = self._run(np.zeros(2 * WINDOW))
        return rest[: self._taken - (self._given - len(rest))]

    def _run(self, samples: NDArray[np.float64]) -> Samples:
        pending = np.concatenate([self._pending, samples])
        count = max(0, (len(pending) - WINDOW) // HOP + 1)
        self._pending = pending[count * HOP :]
        if not count:
            return np.zeros(0, np.int16)
        frames = np.lib.stride_tricks.sliding_window_view(pending, WINDOW)[::HOP][:count]
        spectra = fft.rfft(frames * SINE, axis=1)
        spectra *= self._gains[np.arange(self._frame, self._frame + count) % PERIOD_FRAMES]
        self._frame += count
        marked = fft.irfft(spectra, WINDOW, axis=1) * SINE
        halves = marked[:, :HOP]
        halves[0] += self._overlap
        halves[1:] += marked[:-1, HOP:]
        self._overlap = marked[-1, HOP:].copy()
        rounded = np.rint(halves.reshape(-1)[self._skip :])
        whole: Samples = rounded.clip(-32768, 32767).astype(np.int16)
        self._skip = 0
        self._given += len(whole)
        return whole


@cache
def _gains(key: bytes, payload: int) -> NDArray[np.float64]:
    """[PERIOD_FRAMES, BINS]"""
    gains = np.ones((PERIOD_FRAMES, BINS))
    raised = 10.0 ** (frame_signs(key, payload) * STRENGTH_DB / 20)
    gains[:, BAND_EDGES[0] : BAND_EDGES[-1]] = np.repeat(raised, np.diff(BAND_EDGES), axis=1)
    return gains
