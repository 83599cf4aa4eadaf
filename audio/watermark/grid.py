"""Time and frequency as the watermark sees them: the cells that are raised or lowered.

Frames of 20 ms every 10 ms, of 24 kHz audio. Six frames are a tile, 32 tiles a period of 1.92 s.
There are 21 narrow bands up to 3.4 kHz, which even a telephone passes, and 11 wider ones up to
7.8 kHz.
"""

from __future__ import annotations

import numpy as np

RATE_HZ = 24_000
WINDOW = 480
HOP = 240
BINS = WINDOW // 2 + 1

TILE_FRAMES = 6
TILES = 32
PERIOD_FRAMES = TILE_FRAMES * TILES

BAND_EDGES = np.array([*range(5, 68, 3), *range(68, 157, 8)])
"""First bin of each band, and the end of the last; a bin is 50 Hz."""

BANDS = len(BAND_EDGES) - 1

SINE = np.sin(np.pi * (np.arange(WINDOW) + 0.5) / WINDOW)
"""Its square adds up to one over frames half a window apart."""
