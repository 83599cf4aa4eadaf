"""Where a mark goes into every sample that is synthesised."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Watermark(Protocol):
    """Marks one stream. The output is the same however the stream is cut into pieces."""

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """As many samples as given, in -1..1, marked."""

    def reset(self) -> None:
        """Start another stream."""


class NoWatermark:
    """Leaves the samples alone."""

    def process(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """The same samples."""
        return samples

    def reset(self) -> None:
        """Nothing to forget."""
