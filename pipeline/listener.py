"""A session's place in the ears: microphone samples in, speech probabilities out.

Lives as long as its session. When the ears have to be started again it comes back by itself; its
sample counts go on, what was said meanwhile is not heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import StageFailed
from pipeline.messages import Audio, Plan, Reset, Speech, Start
from pipeline.pool import INLINE_NBYTES, inline
from pipeline.port import Port
from pipeline.worker import Worker, WorkerState

PIECE_SAMPLES = INLINE_NBYTES // 2
MAX_BACKLOG = 512
"""Inputs the ears may be behind before new ones are dropped: ten seconds of 20 ms appends."""


class Listener:
    """16 kHz mono int16 in; `on_speech` is called on the loop, in order of samples."""

    def __init__(self, session_id: str, ears: Worker, on_speech: Callable[[Speech], None]) -> None:
        self.dropped_samples = 0
        self.on_close: Callable[[], None] = lambda: None
        self._start = Start(f"ears-{session_id}", Plan.LISTEN, session_id=session_id)
        self._ears = ears
        self._on_speech = on_speech
        self._port: Port | None = None
        self._fed = 0
        self._base = 0
        self._up = asyncio.Event()
        self._closed = False
        if ears.state is WorkerState.READY:
            self._port = ears.open(self._start)

    def feed(self, samples: NDArray[np.int16]) -> None:
        """Hand over the next samples, any number. Never blocks."""
        self._fed += len(samples)
        port = self._port
        if port is None or port.unconsumed > MAX_BACKLOG:
            self.dropped_samples += len(samples)
            self._base += len(samples)
            return
        for i in range(0, len(samples), PIECE_SAMPLES):
            piece = samples[i : i + PIECE_SAMPLES]
            port.push(Audio(len(piece)), inline(piece))

    def reset(self) -> None:
        """Forget the VAD's state; sample counts go on."""
        if self._port is not None:
            self._port.push(Reset())

    def close(self) -> None:
        """Leave. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._up.set()
            if self._port is not None:
                self._port.close()
                self._port.fail(StageFailed("closed", "the listener has left"))
            self.on_close()

    def worker_is_up(self) -> None:
        """The ears are (back) in service."""
        self._up.set()

    async def run(self) -> None:
        """Deliver until closed. The engine's task."""
        while not self._closed:
            if self._port is None:
                self._up.clear()
                if self._ears.state is not WorkerState.READY:
                    await self._up.wait()
                    continue
                self._base = self._fed
                self._port = self._ears.open(self._start)
            try:
                await self._deliver(self._port)
            except StageFailed:
                self._port = None

    async def _deliver(self, port: Port) -> None:
        while True:
            message = (await port.receive()).message
            if isinstance(message, Speech):
                self._on_speech(Speech(message.probability, message.end_sample + self._base))
