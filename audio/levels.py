"""How loud a piece of sound is, and where it becomes audible.

Levels are of the root mean square, in dB below a full-scale square wave (int16: 32768). Digital
silence is `SILENCE_DBFS`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audio.formats import ms_to_samples

SILENCE_DBFS = -120.0
FRAME_MS = 10


def dbfs(samples: NDArray[np.int16]) -> float:
    """Level of all samples together; of none at all, SILENCE_DBFS."""
    return float(_levels(samples[np.newaxis, :])[0]) if samples.size else SILENCE_DBFS


def frame_dbfs(
    samples: NDArray[np.int16], rate_hz: int, frame_ms: int = FRAME_MS
) -> NDArray[np.float64]:
    """Level of each whole frame; a rest shorter than a frame is left out."""
    size = ms_to_samples(frame_ms, rate_hz)
    count = samples.size // size
    return _levels(samples[: count * size].reshape(count, size))


def first_audible_sample(
    samples: NDArray[np.int16], rate_hz: int, above_dbfs: float = -50.0, frame_ms: int = FRAME_MS
) -> int | None:
    """Start of the first frame louder than `above_dbfs`, or None."""
    loud = np.flatnonzero(frame_dbfs(samples, rate_hz, frame_ms) > above_dbfs)
    return int(loud[0]) * ms_to_samples(frame_ms, rate_hz) if loud.size else None


def _levels(frames: NDArray[np.int16]) -> NDArray[np.float64]:
    power = np.square(frames.astype(np.float64) / 32768).mean(axis=1)
    floor = 10 ** (SILENCE_DBFS / 10)
    levels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, floor))
    return levels
