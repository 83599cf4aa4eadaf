"""What is written in one turn of the loop goes out together."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from realtime.joined_writes import MAX_HELD_NBYTES, JoinedWrites


@dataclass
class Wire:
    """A transport that notes its writes, and the other end of its socket."""

    joined: JoinedWrites
    writes: list[bytes]
    reader: asyncio.StreamReader


@asynccontextmanager
async def wire() -> AsyncIterator[Wire]:
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    reader, writer = await asyncio.open_connection(sock=theirs)
    writes: list[bytes] = []
    write = transport.write

    def note(data: bytes) -> None:
        writes.append(data)
        write(data)

    transport.write = note  # type: ignore[method-assign,assignment]
    try:
        yield Wire(JoinedWrites(transport, loop), writes, reader)
    finally:
        transport.abort()
        writer.close()
        await writer.wait_closed()


async def test_writes_of_a_turn_are_one() -> None:
    async with wire() as one:
        one.joined.write(b"a")
        one.joined.writelines([b"b", b"c"])
        assert one.writes == []
        assert await one.reader.readexactly(3) == b"abc"
        one.joined.write(b"d")
        assert await one.reader.readexactly(1) == b"d"
        assert one.writes == [b"abc", b"d"]


async def test_a_large_write_is_not_held() -> None:
    async with wire() as one:
        one.joined.write(b"a")
        one.joined.write(bytes(MAX_HELD_NBYTES))
        assert [len(data) for data in one.writes] == [MAX_HELD_NBYTES + 1]


async def test_closing_sends_what_is_held() -> None:
    async with wire() as one:
        one.joined.write(b"last words")
        one.joined.close()
        assert one.joined.is_closing()
        assert await one.reader.read() == b"last words"


async def test_aborting_does_not() -> None:
    async with wire() as one:
        one.joined.write(b"last words")
        one.joined.abort()
        assert await one.reader.read() == b""
        assert one.writes == []


async def test_writing_after_the_peer_has_gone_is_harmless() -> None:
    async with wire() as one:
        one.joined.write(b"nobody")
        one.joined._transport.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert one.writes == []
