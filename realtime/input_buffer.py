"""The user's audio from arrival to commit. Positions count all samples ever received."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BYTES_PER_SAMPLE = 2


class InputBuffer:
    """16 kHz mono int16. Over `max_samples` the oldest are dropped and counted."""

    def __init__(self, max_samples: int) -> None:
        self.max_samples = max_samples
        self.start = 0  # position of the first sample held
        self.dropped = 0
        self._pcm = bytearray()

    def __len__(self) -> int:
        """Samples held."""
        return len(self._pcm) // BYTES_PER_SAMPLE

    @property
    def end(self) -> int:
        """Samples received since the session began."""
        return self.start + len(self)

    def append(self, samples: NDArray[np.int16]) -> None:
        """Take the next samples."""
        self._pcm += samples.astype("<i2", copy=False).tobytes()
        excess = len(self) - self.max_samples
        if excess > 0:
            self.dropped += excess
            self.forget(self.start + excess)

    def forget(self, before: int) -> None:
        """Drop what lies before this position."""
        samples = min(max(before - self.start, 0), len(self))
        del self._pcm[: samples * BYTES_PER_SAMPLE]
        self.start += samples

    def peek(self, start: int, end: int) -> bytes:
        """The audio from `start` to `end`, as far as it is held. It stays."""
        first = min(max(start - self.start, 0), len(self))
        last = min(max(end - self.start, first), len(self))
        return bytes(self._pcm[first * BYTES_PER_SAMPLE : last * BYTES_PER_SAMPLE])

    def take(self, start: int, end: int) -> bytes:
        """Remove everything up to `end`, and return it from `start` on, as far as it is held."""
        taken = self.peek(start, end)
        self.forget(min(max(end, start), self.end))
        return taken

    def clear(self) -> None:
        """Drop everything; the count goes on."""
        self.forget(self.end)
