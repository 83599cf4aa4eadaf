"""Work in the background waits while a conversation waits for something.

The stages share the cores of one machine: a batch of jobs that each keep a core busy would slow a
live reply down even if it were always next in every queue. So before each step, a job waits until
no live request is pressing, or for `PATIENCE_S`, so that it comes to an end beside any crowd.
"""

from __future__ import annotations

import asyncio

PATIENCE_S = 2.0


class Precedence:
    """Which live requests are pressing: somebody waits for what they make next."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._pressing: set[str] = set()
        self._clear = asyncio.Event()
        self._clear.set()

    def press(self, request_id: str) -> None:
        """A live request has begun, or its listener wants more."""
        self._pressing.add(request_id)
        self._clear.clear()

    def relax(self, request_id: str) -> None:
        """It is over, or its listener has enough for now. Unknown ids are ignored."""
        self._pressing.discard(request_id)
        if not self._pressing:
            self._clear.set()

    async def give_way(self) -> None:
        """Wait before a step of a job in the background."""
        if self._clear.is_set():
            return
        try:
            async with asyncio.timeout(self._patience_s):
                await self._clear.wait()
        except TimeoutError:
            pass  # one step now, and the next one waits again
