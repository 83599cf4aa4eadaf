"""What a detector sees of a sound: how much each band rises and falls, whatever the speech does.

Loudness in decibels, less its average over neighbouring frames and bands, clipped and divided by
its own local spread: speech, gain and equalisers go, the mark stays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.ndimage import uniform_filter, uniform_filter1d

from audio.watermark.grid import BAND_EDGES, BANDS, HOP, SINE, WINDOW

Features = NDArray[np.float32]

MEAN_FRAMES = 10
MEAN_BANDS = 7
SPREAD = (3, 9)
"""Bands and frames over which the local spread is taken."""

CLIP_DB = 6.0
FLOOR_DB = -45.0
"""Relative to a band's mean: below it there is only what a codec leaves of silence."""

SILENCE_DB = -40.0
"""Relative to the loud frames: quieter ones are left out."""

SPREAD_FLOOR_DB = 0.3
"""A band that hardly moves is empty, and says little."""


def features(samples: NDArray[np.float32]) -> Features:
    """[BANDS, frames] of 24 kHz mono in -1..1; no frames if it is shorter than one."""
    count = max(0, (len(samples) - WINDOW) // HOP + 1)
    if not count:
        return np.zeros((BANDS, 0), np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::HOP][:count]
    spectra = fft.rfft(frames * SINE.astype(np.float32), axis=1)
    power = spectra.real**2 + spectra.imag**2
    energy = np.add.reduceat(power[:, : BAND_EDGES[-1]], BAND_EDGES[:-1], axis=1).T
    loud = energy.sum(axis=0)
    reference = float(np.percentile(loud, 95))
    if reference <= 0.0:
        return np.zeros((BANDS, count), np.float32)
    means = energy.mean(axis=1, keepdims=True)
    floor = np.maximum(means * 10 ** (FLOOR_DB / 10), reference * 1e-9)
    level = 10 * np.log10(energy + floor)
    level -= uniform_filter1d(level, MEAN_FRAMES, axis=1)
    level -= uniform_filter1d(level, MEAN_BANDS, axis=0)
    level = np.clip(level, -CLIP_DB, CLIP_DB)
    level /= uniform_filter(level**2, SPREAD) + 1.0
    level *= loud > reference * 10 ** (SILENCE_DB / 10)
    spread = np.sqrt((level**2).mean(axis=1, keepdims=True))
    whitened: Features = (level / (spread + SPREAD_FLOOR_DB / 10)).astype(np.float32)
    return whitened
