"""A session's ears, counting in the session's samples even while they are not listening."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipeline.engine import Engine
from pipeline.messages import Speech


class Ears:
    """Feeds the VAD when turn detection is on; its results come back with session sample counts.

    The VAD counts what it is fed. What is skipped shifts the counts of all that follows, while
    results for what came before may still be on their way.
    """

    def __init__(
        self, engine: Engine, session_id: str, on_speech: Callable[[Speech], None]
    ) -> None:
        self._on_speech = on_speech
        self._fed = 0
        # (samples fed when the shift began to hold, the shift), oldest first, never empty.
        self._shifts = deque([(0, 0)])
        self._listener = engine.listen(session_id, self._heard)

    def feed(self, samples: NDArray[np.int16]) -> None:
        """Listen to the next samples, 16 kHz."""
        self._fed += len(samples)
        self._listener.feed(samples)

    def skip(self, samples: int) -> None:
        """Let this many samples pass unheard."""
        fed, shift = self._shifts[-1]
        if fed == self._fed:
            self._shifts.pop()
        self._shifts.append((self._fed, shift + samples))

    def reset(self) -> None:
        """Forget what was heard; the counts go on."""
        self._listener.reset()

    def close(self) -> None:
        """Leave. Safe to call twice."""
        self._listener.close()

    def _heard(self, speech: Speech) -> None:
        while len(self._shifts) > 1 and self._shifts[1][0] < speech.end_sample:
            self._shifts.popleft()
        shift = self._shifts[0][1]
        self._on_speech(replace(speech, end_sample=speech.end_sample + shift))
