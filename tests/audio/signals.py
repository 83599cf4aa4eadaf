"""Sounds that tests of the audio package share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

SPEECH = Path(__file__).parents[1] / "fixtures" / "speech"

cuts = st.lists(st.integers(0, 900), min_size=1, max_size=12)
"""Lengths of pieces to cut a signal into, used over and over."""


def tone(hz: float, rate_hz: int, samples: int, level: float = 0.5) -> NDArray[np.int16]:
    """A sine; level 1.0 is full scale."""
    phase = 2 * np.pi * hz * np.arange(samples) / rate_hz
    return np.rint(level * 32767 * np.sin(phase)).astype(np.int16)


def noise(samples: int, seed: int = 0, level: float = 0.1) -> NDArray[np.int16]:
    """White noise whose root mean square is `level`, clipped at full scale."""
    values = np.random.default_rng(seed).standard_normal(samples) * level * 32767
    return np.clip(np.rint(values), -32768, 32767).astype(np.int16)


def pieces(signal: NDArray[np.int16], lengths: list[int]) -> list[NDArray[np.int16]]:
    """The signal cut at these lengths in turn; all of it, whatever the lengths are."""
    cut, start, turn = [], 0, 0
    while start < signal.size:
        length = lengths[turn % len(lengths)] if any(lengths) else signal.size
        cut.append(signal[start : start + length])
        start, turn = start + length, turn + 1
    return cut


def signal_to_noise_db(
    clean: NDArray[np.int16], coded: NDArray[np.int16], rate_hz: int, below_hz: float
) -> float:
    """How far the difference of two aligned signals lies under the first, in the low band."""

    def low(samples: NDArray[np.int16]) -> NDArray[np.float64]:
        spectrum = np.fft.rfft(samples.astype(np.float64))
        spectrum[np.fft.rfftfreq(samples.size, 1 / rate_hz) > below_hz] = 0
        return np.fft.irfft(spectrum, samples.size)

    difference = low(clean) - low(coded)
    return float(10 * np.log10(np.square(low(clean)).sum() / np.square(difference).sum()))
