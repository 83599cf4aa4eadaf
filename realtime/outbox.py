"""What waits to be written to a client: bounded in bytes, so that a slow reader is noticed."""

from __future__ import annotations

import asyncio
from collections import deque


class Outbox:
    """A queue from the session to the socket's writer. Putting never waits and never raises."""

    def __init__(self, max_nbytes: int) -> None:
        self._max_nbytes = max_nbytes
        self._frames: deque[str] = deque()
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self.overflowed = asyncio.Event()
        self.nbytes = 0

    def put(self, frame: str) -> None:
        """Append a frame. Over the limit it is dropped and `overflowed` set, for good.

        A single frame is always taken, however large: the limit is about what waits.
        """
        if self._frames and self.nbytes + len(frame) > self._max_nbytes:
            self.overflowed.set()
        if self.overflowed.is_set():
            return
        self._frames.append(frame)
        self.nbytes += len(frame)
        self._filled.set()
        self._emptied.clear()

    async def emptied(self) -> None:
        """Wait until everything has been taken, and the taker is back for more."""
        await self._emptied.wait()

    async def get(self) -> str:
        """The oldest frame, waiting for one. Safe to cancel."""
        while not self._frames:
            self._emptied.set()
            self._filled.clear()
            await self._filled.wait()
        frame = self._frames.popleft()
        self.nbytes -= len(frame)
        return frame
