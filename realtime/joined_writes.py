"""A socket's writes of one turn of the event loop, in one system call.

Each write wakes the client, which on a busy machine takes the core from what answers it next. So
frames go out together, after the work that the turn has set off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

MAX_HELD_NBYTES = 64 * 1024
"""More is passed on at once, so that the transport's own limits notice a slow reader."""


class JoinedWrites(asyncio.Transport):
    """Another transport, whose writes are held back until the turn of the loop is over."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._held_nbytes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hold, or pass on what there is."""
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(bytes(data))
        self._held_nbytes += len(data)
        if self._held_nbytes > MAX_HELD_NBYTES:
            self._flush()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """As so many writes."""
        self.write(b"".join(list_of_data))

    def _flush(self) -> None:
        held, self._held, self._held_nbytes = self._held, [], 0
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held))

    def close(self) -> None:
        """Pass on what is held, then close."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what is held is lost."""
        self._held, self._held_nbytes = [], 0
        self._transport.abort()

    def write_eof(self) -> None:
        """Pass on what is held, then end."""
        self._flush()
        self._transport.write_eof()

    def is_closing(self) -> bool:
        """As the transport."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the transport."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """As the transport."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """As the transport."""
        self._transport.resume_reading()
