"""Gives memory back to the system when the server has come to rest.

glibc keeps what was freed, in pieces between what is still in use. A server that was once busy
would look busy in its memory for ever.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

PAUSE_S = 5.0
"""At most once in so long: it takes some milliseconds, and seldom finds much."""


def trimmer() -> Callable[[], int] | None:
    """`malloc_trim` of this process, where the C library has it."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    return lambda: int(trim(0))


class Heap:
    """Of this process. trim: gives back what it can."""

    def __init__(self, trim: Callable[[], int] | None = None) -> None:
        self._trim = trim or trimmer()
        self._trimmed_s = -PAUSE_S
        self._trimming: asyncio.Task[None] | None = None

    def rest(self) -> None:
        """Nothing is in progress: trim, in a thread, unless that was done a moment ago."""
        now_s = time.monotonic()
        if self._trim is None or self._trimming or now_s - self._trimmed_s < PAUSE_S:
            return
        self._trimmed_s = now_s
        self._trimming = asyncio.get_running_loop().create_task(self._run(self._trim))

    async def _run(self, trim: Callable[[], int]) -> None:
        try:
            await asyncio.to_thread(trim)
        finally:
            self._trimming = None
