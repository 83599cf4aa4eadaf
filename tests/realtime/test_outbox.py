"""The queue of a socket's writer."""

from __future__ import annotations

import asyncio

from realtime.outbox import Outbox


async def test_frames_come_out_in_order_and_the_reader_waits_for_the_next() -> None:
    outbox = Outbox(100)
    outbox.put("a")
    outbox.put("b")
    assert [await outbox.get(), await outbox.get()] == ["a", "b"]

    waiting = asyncio.create_task(outbox.get())
    await asyncio.sleep(0)
    outbox.put("c")

    assert await waiting == "c"
    assert outbox.nbytes == 0


async def test_what_waits_is_bounded_and_stays_overflowed() -> None:
    outbox = Outbox(10)
    outbox.put("12345678")
    outbox.put("90")
    assert not outbox.overflowed.is_set()

    outbox.put("x")

    assert outbox.overflowed.is_set()
    assert await outbox.get() == "12345678"
    outbox.put("y")
    assert outbox.nbytes == 2


async def test_one_frame_larger_than_the_limit_is_taken() -> None:
    outbox = Outbox(4)

    outbox.put("a long frame")

    assert await outbox.get() == "a long frame"
    assert not outbox.overflowed.is_set()
