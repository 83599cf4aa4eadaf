"""AudioSeal's mark in place of Sori's own, for those who have the weights of its generator.

San Roman et al., "Proactive Detection of Voice Cloning with Localized Watermarking", ICML 2024.
The generator hears 16 kHz and makes a watermark that is added to the sound. Its checkpoint for
streams is causal: blocks are marked one after the other, each with the sound before it as context.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.resample import StreamResampler

MODEL_HZ = 16_000
OUTPUT_HZ = 24_000

BLOCK = MODEL_HZ * 3 // 10
"""Samples marked at once. The mark holds back as many, and what resampling there and back does."""

CONTEXT = BLOCK
"""Samples before a block that the generator hears with it. Each second of them costs as much as one
of sound, and the generator is slow on a CPU."""

DEFAULT_WEIGHTS = "audioseal_wm_streaming"
"""The card of the causal generator, whose checkpoint the package fetches into its own cache."""

BITS = 16

Samples = NDArray[np.int16]
Floats = NDArray[np.float32]
Generator = Callable[[Floats], Floats]
"""Mono 16 kHz in -1..1 to the watermark of as many samples."""


def load_generator(weights: str, payload: int) -> Generator:
    """The generator with its message. weights: a card of the package's, or a checkpoint's path.

    Raises ImportError without the package, RuntimeError without weights; both say what to do.
    """
    # Compiling pays off after minutes; it would be paid for in the first replies.
    os.environ.setdefault("NO_TORCH_COMPILE", "1")
    try:
        torch: Any = importlib.import_module("torch")
        package: Any = importlib.import_module("audioseal")
    except ImportError as error:
        raise ImportError(
            f"watermark.backend audioseal: {error}; pip install audioseal, or set backend: sori"
        ) from error
    try:
        model = package.AudioSeal.load_generator(weights or DEFAULT_WEIGHTS, nbits=BITS)
    except Exception as error:
        raise RuntimeError(
            f"watermark.weights: the generator '{weights or DEFAULT_WEIGHTS}' cannot be loaded "
            f"({error}); name the file of its checkpoint, or set watermark.backend to sori"
        ) from error
    model.eval()
    bits = [payload >> place & 1 for place in reversed(range(BITS))]
    message = torch.tensor([bits])

    def watermark(sound: Floats) -> Floats:
        with torch.inference_mode():
            made = model.get_watermark(torch.from_numpy(sound)[None, None], message=message)
        array: Floats = made[0, 0].numpy()
        return array

    return watermark


class AudioSealMark:
    """A `Watermark`: marks one stream of 24 kHz int16, and holds back up to 400 ms of it."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._down = StreamResampler(OUTPUT_HZ, MODEL_HZ, np.float32)
        self._up = StreamResampler(MODEL_HZ, OUTPUT_HZ, np.float32)
        self._heard = np.zeros(0, np.float32)  # context, then what fills no block yet
        self._context = 0
        self._waiting = np.zeros(0, np.float32)  # sound at 24 kHz without its watermark

    def process(self, samples: Samples) -> Samples:
        """What these samples complete, marked."""
        sound = samples.astype(np.float32) / np.float32(32768)
        self._waiting = np.concatenate([self._waiting, sound])
        return self._add(self._watermark(self._down.process(sound)))

    def flush(self) -> Samples:
        """The rest: as many samples as went in came out."""
        parts = [self._watermark(self._down.flush())]
        if left := len(self._heard) - self._context:
            parts.append(self._watermark(np.zeros(BLOCK - left, np.float32)))
        parts.append(self._up.flush())
        made = np.concatenate(parts)
        missing = max(0, len(self._waiting) - len(made))
        return self._add(np.pad(made, (0, missing)))

    def _watermark(self, heard: Floats) -> Floats:
        """The watermark of all whole blocks, at 24 kHz."""
        self._heard = np.concatenate([self._heard, heard])
        made = [np.zeros(0, np.float32)]
        while len(self._heard) >= self._context + BLOCK:
            end = self._context + BLOCK
            made.append(self._up.process(self._generator(self._heard[:end])[-BLOCK:]))
            drop = max(0, end - CONTEXT)
            self._heard, self._context = self._heard[drop:], end - drop
        return np.concatenate(made)

    def _add(self, watermark: Floats) -> Samples:
        count = min(len(watermark), len(self._waiting))
        sound, self._waiting = self._waiting[:count], self._waiting[count:]
        marked = np.rint((sound + watermark[:count]) * 32768)
        whole: Samples = marked.clip(-32768, 32767).astype(np.int16)
        return whole
