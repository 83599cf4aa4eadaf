"""Word boundaries that can be heard without knowing the words: a hiss that begins after a vowel.

Where a word ends in a vowel or a nasal and the next begins with an unvoiced sibilant, the boundary
is the moment at which the energy above 4 kHz overtakes the energy below 1 kHz.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.messages import OUTPUT_RATE_HZ

HISSING_SENTENCES = (
    "We saw seven silver ships sail slowly by some islands.",
    "You sing so softly now that summer skies grow still.",
    "They say she saw Susan sell seven new shoes in silence.",
    "Tomorrow several of my sons may see the new school.",
    "No sailor knew such a storm in seven years.",
    "Why should the sea sound so serene on Sunday?",
)
SONORANT_ENDS = ("w", "y", "e", "n", "m", "r", "o", "a", "l", "ew", "ow")
FRAME = OUTPUT_RATE_HZ // 200  # 5 ms
WINDOW = 4 * FRAME
REACH_S = 0.2


def hiss_onsets(
    samples: NDArray[np.float32], text: str, ends_s: dict[int, float]
) -> list[tuple[int, float]]:
    """Boundaries found by ear: (characters before it, seconds).

    ends_s: where each word that ends at this character is thought to end; only the neighbourhood
    of it is searched, far wider than any error that would matter.
    """
    balance = _hiss_balance(samples)
    found = []
    position = 0
    words = text.split()
    for word, following in zip(words, words[1:], strict=False):
        position = text.index(word, position) + len(word)
        sibilant = following[0].lower() == "s" and following.lower() not in ("she", "should")
        if not sibilant or not word.lower().endswith(SONORANT_ENDS) or position not in ends_s:
            continue
        centre = int(ends_s[position] * OUTPUT_RATE_HZ / FRAME)
        reach = int(REACH_S * OUTPUT_RATE_HZ / FRAME)
        first = max(centre - reach, 1)
        for i in range(first, min(centre + reach, len(balance))):
            if balance[i] > 0 >= balance[i - 1]:
                found.append((position, i * FRAME / OUTPUT_RATE_HZ))
                break
    return found


def _hiss_balance(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """Level above 4 kHz over level below 1 kHz, in dB, every 5 ms."""
    padded = np.pad(samples, WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::FRAME]
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), axis=1)) ** 2 + 1e-9
    hz = np.fft.rfftfreq(WINDOW, 1 / OUTPUT_RATE_HZ)
    balance: NDArray[np.float64] = 10 * np.log10(
        power[:, hz > 4000].sum(1) / power[:, hz < 1000].sum(1)
    )
    return balance
