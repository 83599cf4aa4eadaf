"""Speech-like sound without a model, and marks in it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from audio.watermark.embedder import Embedder

RATE_HZ = 24_000
KEY = b"the key of these tests"
PAYLOAD = 0xC0DE


def babble(seconds: float, seed: int = 0) -> NDArray[np.int16]:
    """Syllables: pulses and noise through moving formants, with pauses between them."""
    random = np.random.default_rng(seed)
    pieces: list[NDArray[np.float64]] = []
    state = np.zeros(8)
    while sum(map(len, pieces)) < seconds * RATE_HZ:
        length = int(random.uniform(0.05, 0.25) * RATE_HZ)
        source = random.standard_normal(length) * 0.02
        source[:: int(RATE_HZ / random.uniform(90, 220))] += 1.0
        denominator = np.ones(1)
        for low, high in ((300, 800), (900, 2200), (2300, 3200), (3500, 4500)):
            angle = 2 * np.pi * random.uniform(low, high) / RATE_HZ
            radius = np.exp(-np.pi * random.uniform(80, 160) / RATE_HZ)
            denominator = np.convolve(denominator, [1, -2 * radius * np.cos(angle), radius**2])
        sound, state = lfilter([1.0], denominator, source * np.hanning(length), zi=state)
        pieces.append(sound)
        if random.random() < 0.15:
            pieces.append(np.zeros(int(random.uniform(0.05, 0.2) * RATE_HZ)))
    whole = np.concatenate(pieces)[: int(seconds * RATE_HZ)]
    scaled: NDArray[np.int16] = np.rint(whole / np.abs(whole).max() * 20_000).astype(np.int16)
    return scaled


def mark(
    samples: NDArray[np.int16],
    payload: int = PAYLOAD,
    key: bytes = KEY,
    sizes: Iterable[int] = (4800,),
) -> NDArray[np.int16]:
    """The samples with a mark, given to the embedder in chunks of these sizes, over and over."""
    embedder = Embedder(key, payload)
    chunks: list[NDArray[np.int16]] = []
    begin, sizes = 0, list(sizes)
    while begin < len(samples):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(embedder.process(samples[begin : begin + size]))
        begin += size
    return np.concatenate([*chunks, embedder.flush()])
