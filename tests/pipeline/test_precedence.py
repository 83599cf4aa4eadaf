"""Who waits for whom, without an engine."""

from __future__ import annotations

import asyncio

from pipeline.precedence import Precedence


async def waits(precedence: Precedence) -> asyncio.Task[None]:
    task = asyncio.create_task(precedence.give_way())
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def test_a_job_goes_on_at_once_when_nobody_waits() -> None:
    assert (await waits(Precedence())).done()


async def test_a_job_waits_for_all_who_press() -> None:
    precedence = Precedence(60)
    precedence.press("a")
    precedence.press("b")
    task = await waits(precedence)
    precedence.relax("a")
    precedence.relax("unknown")
    await asyncio.sleep(0)
    assert not task.done()
    precedence.relax("b")
    await task


async def test_a_job_does_not_wait_for_ever() -> None:
    precedence = Precedence(0.01)
    precedence.press("crowd")
    await precedence.give_way()
    assert not (await waits(precedence)).done()  # the next step waits again
