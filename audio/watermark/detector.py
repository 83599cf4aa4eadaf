"""Whether a stretch of sound has the mark of a key, and what the mark says.

The features are folded over the mark's period at every speed that is looked for, and compared with
the key's pattern at every offset. The best places are read: the value of each byte is the code that
fits best. How well all of it fits is the score. The same search with keys that nobody has used
tells what scores come by chance, in this very sound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from audio.watermark.features import Features
from audio.watermark.grid import BANDS, PERIOD_FRAMES, TILE_FRAMES, TILES
from audio.watermark.pattern import CODES, KeyPattern, key_pattern

SPEEDS = tuple(1 + step / 500 for step in range(-8, 9))
"""Slower and faster by up to 1.6 %, in steps at which 10 s drift by 10 ms either way."""

DECOYS = 64
CANDIDATES = 24
"""Places that are read, of those where the sync fits best."""

MIN_FRAMES = 2 * TILE_FRAMES
EULER_GAMMA = 0.5772156649015329

Complex = NDArray[np.complex64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Finding:
    """Of one stretch. p_value: how often chance alone would score as high, in the whole search.

    score: in standard deviations above the mean of chance. speed: by which it has been played
    faster than it was made.
    """

    p_value: float
    score: float
    payload: int
    speed: float


NOTHING = Finding(1.0, 0.0, 0, 1.0)


def find(sound: Features, key: bytes) -> Finding:
    """Search one stretch of 2 to 20 s; see `features`. Raises ValueError for an empty key."""
    pattern = key_pattern(key)
    if sound.shape[1] < MIN_FRAMES or not sound.any():
        return NOTHING
    places = _Places(sound)
    best, payload, speed = places.search(pattern, _spectrum(pattern))
    chance = np.array([places.search(decoy, spectrum)[0] for decoy, spectrum in _decoys()])
    mean, spread = float(chance.mean()), float(chance.std(ddof=1))
    score = (best - mean) / spread
    return Finding(_gumbel_tail(score), score, payload, speed)


def _gumbel_tail(score: float) -> float:
    """The chance of a maximum this far above its mean, in its own standard deviations.

    Gumbel's distribution, fitted by moments. The scores' own tail is thinner, so it errs on the
    safe side. Below a hundredth or so it is an extrapolation.
    """
    reduced = score * math.pi / math.sqrt(6) + EULER_GAMMA
    return -math.expm1(-math.exp(-reduced)) if reduced > -5 else 1.0


class _Places:
    """A stretch folded at every speed, ready to be compared at every offset."""

    def __init__(self, sound: Features) -> None:
        frames = sound.shape[1]
        folded = np.zeros((len(SPEEDS), PERIOD_FRAMES, BANDS), np.float32)
        for index, speed in enumerate(SPEEDS):
            at = np.floor(np.arange(frames) * speed).astype(np.intp) % PERIOD_FRAMES
            np.add.at(folded[index], at, sound.T)
        self._spectra: Complex = fft.rfft(folded.transpose(0, 2, 1), axis=2)
        # The sum of each tile of each band at each offset: [speeds, offsets, BANDS, TILES].
        twice = np.concatenate([folded, folded], axis=1)
        sums = np.cumsum(np.pad(twice, ((0, 0), (1, 0), (0, 0))), axis=1, dtype=np.float64)
        tile = (sums[:, TILE_FRAMES:] - sums[:, :-TILE_FRAMES])[:, : 2 * PERIOD_FRAMES]
        begins = np.arange(PERIOD_FRAMES)[:, None] + np.arange(TILES) * TILE_FRAMES
        self._tiles = tile.astype(np.float32)
        self._begins = begins % PERIOD_FRAMES

    def search(self, pattern: KeyPattern, spectrum: Complex) -> tuple[float, int, float]:
        """(fit, payload, speed) at the best place."""
        fits = fft.irfft((self._spectra * spectrum).sum(axis=1), PERIOD_FRAMES, axis=1)
        flat = fits.reshape(-1)
        best = np.argpartition(flat, -CANDIDATES)[-CANDIDATES:]
        speeds, offsets = np.unravel_index(best, fits.shape)
        cells = self._tiles[speeds[:, None], self._begins[offsets]]  # [candidates, TILES, BANDS]
        signed = cells.transpose(0, 2, 1).reshape(len(best), -1) * pattern.signs
        total = signed[:, pattern.sync].sum(axis=1)
        values = []
        for symbol in pattern.symbols:
            codes = signed[:, symbol] @ CODES
            values.append(codes.argmax(axis=1))
            total = total + codes.max(axis=1)
        chosen = int(total.argmax())
        payload = int(values[0][chosen]) << 8 | int(values[1][chosen])
        return float(total[chosen]), payload, SPEEDS[speeds[chosen]]


def _spectrum(pattern: KeyPattern) -> Complex:
    """[BANDS, bins]: the conjugate of the sync's spectrum over a period."""
    signs = np.zeros(BANDS * TILES, np.float32)
    signs[pattern.sync] = pattern.signs[pattern.sync]
    frames: Floats = np.repeat(signs.reshape(BANDS, TILES), TILE_FRAMES, axis=1)
    spectrum: Complex = np.conj(fft.rfft(frames, axis=1))
    return spectrum


@cache
def _decoys() -> tuple[tuple[KeyPattern, Complex], ...]:
    patterns = [key_pattern(b"decoy %d" % number) for number in range(DECOYS)]
    return tuple((pattern, _spectrum(pattern)) for pattern in patterns)
