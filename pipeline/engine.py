"""The engine: submit a request, get a stream of messages; abort; stats; shutdown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import numpy as np
from numpy.typing import NDArray

from pipeline.config import EngineConfig
from pipeline.messages import PipelineMessage, Speech, Start


class Listener:
    """A session's place in the ears: 16 kHz int16 in, speech probabilities out."""

    def feed(self, samples: NDArray[np.int16]) -> None:
        """Hand over the next samples (any number). Never blocks."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget the VAD's state; sample counts go on."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave. Safe to call twice."""
        raise NotImplementedError


class Engine:
    """Owns the workers, the pools and every request between submit and End."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config

    async def start(self) -> None:
        """Start the workers and load their models. Raises EngineError naming what failed."""
        raise NotImplementedError

    def submit(
        self, start: Start, audio: NDArray[np.int16] | None = None
    ) -> AsyncIterator[PipelineMessage]:
        """Run a request; closing the iterator aborts it.

        audio: 16 kHz mono, for `Plan.TRANSCRIBE`. Always ends in End or Failed.
        """
        raise NotImplementedError

    def note_played(self, request_id: str, samples: int) -> None:
        """Tell how many samples of a reply its listener has heard; paces synthesis."""
        raise NotImplementedError

    def listen(self, session_id: str, on_speech: Callable[[Speech], None]) -> Listener:
        """Open a place in the ears; `on_speech` is called on the loop, in order of samples."""
        raise NotImplementedError

    def abort(self, request_id: str) -> None:
        """Stop a request everywhere. Unknown ids are ignored."""
        raise NotImplementedError

    async def shutdown(self) -> None:
        """Stop all workers and free the pools."""
        raise NotImplementedError
