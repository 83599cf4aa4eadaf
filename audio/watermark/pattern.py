"""What a key and a payload make of the grid: a sign for every cell of a period.

Half of the cells, drawn by the key, carry signs that the key alone decides: they tell that there is
a mark, and where its period begins. Each byte of the payload has a quarter: one of 256 orthogonal
patterns (rows of a Hadamard matrix), scrambled by the key's signs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard

from audio.watermark.grid import BANDS, TILE_FRAMES, TILES

CELLS = BANDS * TILES
SYNC_CELLS = CELLS // 2
SYMBOL_CELLS = CELLS // 4
SYMBOLS = 2
PAYLOADS = 1 << 16

CODES: NDArray[np.float32] = hadamard(SYMBOL_CELLS).astype(np.float32)
"""[256, 256]: a row for each value of a byte."""


@dataclass(frozen=True, slots=True)
class KeyPattern:
    """Of one key. signs: [CELLS] of -1 or 1. sync: indices of the cells that carry no payload.

    symbols: indices of the cells of each byte, [2, 256]. A cell's index is band * TILES + tile.
    """

    signs: NDArray[np.float32]
    sync: NDArray[np.intp]
    symbols: NDArray[np.intp]


@cache
def key_pattern(key: bytes) -> KeyPattern:
    """Drawn by SHAKE-256, so that it is the same on every machine. Raises ValueError if empty."""
    if not key:
        raise ValueError("a watermark needs a key")
    drawn = hashlib.shake_256(b"sori watermark 1\0" + key).digest(CELLS * 8 + CELLS // 8)
    order = np.argsort(np.frombuffer(drawn[: CELLS * 8], "<u8"), kind="stable")
    bits = np.unpackbits(np.frombuffer(drawn[CELLS * 8 :], np.uint8))
    return KeyPattern(
        signs=np.where(bits, 1, -1).astype(np.float32),
        sync=np.sort(order[:SYNC_CELLS]),
        symbols=order[SYNC_CELLS:].reshape(SYMBOLS, SYMBOL_CELLS),
    )


def symbols_of(payload: int) -> tuple[int, int]:
    """The two bytes of a payload. Raises ValueError if it has more than 16 bits."""
    if not 0 <= payload < PAYLOADS:
        raise ValueError(f"a payload has 16 bits: 0 to {PAYLOADS - 1}, not {payload}")
    return payload >> 8, payload & 0xFF


def frame_signs(key: bytes, payload: int) -> NDArray[np.float32]:
    """[PERIOD_FRAMES, BANDS]: which way each band goes in each frame of a period."""
    pattern = key_pattern(key)
    signs = pattern.signs.copy()
    for cells, value in zip(pattern.symbols, symbols_of(payload), strict=True):
        signs[cells] *= CODES[value]
    return np.repeat(signs.reshape(BANDS, TILES), TILE_FRAMES, axis=1).T
