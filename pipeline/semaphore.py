"""The synthesis semaphore: how many VoiceBox steps run at once, and who goes next.

Waiters are served by earliest deadline: the moment at which their listener runs out of audio. A
deadline stands still while others' pass, so nobody waits for ever; speculative work has none and
goes last.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pipeline.errors import StageFailed

SPECULATIVE_DEADLINE_S = float("inf")


class SynthesisSemaphore:
    """Taken for one synthesis step, released before anything waits."""

    def __init__(self, limit: int, max_queued: int, timeout_s: float) -> None:
        self._limit = limit
        self._max_queued = max_queued
        self._timeout_s = timeout_s
        self._ticket = 0
        self._waiters: list[tuple[float, int, asyncio.Future[None]]] = []
        self.running = 0
        self.longest_wait_s = 0.0

    @property
    def waiting(self) -> int:
        """How many steps are queued."""
        return sum(not future.done() for _, _, future in self._waiters)

    @asynccontextmanager
    async def step(self, deadline_s: float) -> AsyncIterator[None]:
        """Hold the semaphore for one step.

        deadline_s: when the listener runs dry, on the loop's clock. Raises StageFailed with
        `synthesis_queue_full` or `synthesis_timeout` instead of waiting for ever.
        """
        await self._acquire(deadline_s)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, deadline_s: float) -> None:
        if self.running < self._limit:
            self.running += 1
            return
        if self.waiting >= self._max_queued:
            raise StageFailed("synthesis_queue_full", "too many replies wait for the voice")
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        granted: asyncio.Future[None] = loop.create_future()
        self._ticket += 1
        heapq.heappush(self._waiters, (deadline_s, self._ticket, granted))
        try:
            async with asyncio.timeout(self._timeout_s):
                await granted
        except TimeoutError as error:
            raise StageFailed(
                "synthesis_timeout", f"the voice was not free for {self._timeout_s:g} s"
            ) from error
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release()  # granted and cancelled in the same turn of the loop
            raise
        finally:
            granted.cancel()
            self.longest_wait_s = max(self.longest_wait_s, loop.time() - began_s)

    def _release(self) -> None:
        while self._waiters:
            _, _, granted = heapq.heappop(self._waiters)
            if not granted.done():
                granted.set_result(None)  # the place passes on; `running` stays
                return
        self.running -= 1
