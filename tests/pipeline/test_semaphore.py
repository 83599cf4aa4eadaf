"""Whose turn it is to synthesise."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.errors import StageFailed
from pipeline.semaphore import SPECULATIVE_DEADLINE_S, SynthesisSemaphore


async def queue_up(
    semaphore: SynthesisSemaphore, deadlines: dict[str, float]
) -> tuple[list[str], asyncio.Event, list[asyncio.Task[None]]]:
    """A holder, and waiters behind it in the order given; returns who ran, in order."""
    order: list[str] = []
    release = asyncio.Event()

    async def hold() -> None:
        async with semaphore.step(0):
            await release.wait()

    async def wait(name: str, deadline_s: float) -> None:
        async with semaphore.step(deadline_s):
            order.append(name)

    tasks = [asyncio.create_task(hold())]
    await asyncio.sleep(0)
    for name, deadline_s in deadlines.items():
        tasks.append(asyncio.create_task(wait(name, deadline_s)))
        await asyncio.sleep(0)
    return order, release, tasks


async def test_the_listener_who_runs_dry_first_goes_first() -> None:
    semaphore = SynthesisSemaphore(1, 10, 5)
    order, release, tasks = await queue_up(
        semaphore, {"full": 9.0, "guess": SPECULATIVE_DEADLINE_S, "dry": 1.0, "half": 4.0}
    )
    assert semaphore.waiting == 4
    release.set()
    await asyncio.wait(tasks)
    assert order == ["dry", "half", "full", "guess"]
    assert semaphore.running == 0


async def test_equal_deadlines_are_served_in_order_of_arrival() -> None:
    semaphore = SynthesisSemaphore(1, 10, 5)
    order, release, tasks = await queue_up(semaphore, {"a": 1.0, "b": 1.0, "c": 1.0})
    release.set()
    await asyncio.wait(tasks)
    assert order == ["a", "b", "c"]


async def test_a_full_queue_refuses_at_once() -> None:
    semaphore = SynthesisSemaphore(1, 1, 5)
    _, release, tasks = await queue_up(semaphore, {"waits": 1.0})
    with pytest.raises(StageFailed) as caught:
        async with semaphore.step(0):
            pass
    assert caught.value.code == "synthesis_queue_full"
    release.set()
    await asyncio.wait(tasks)


async def test_a_wait_that_takes_too_long_fails_and_leaves_the_queue() -> None:
    semaphore = SynthesisSemaphore(1, 10, 0.01)
    _, release, tasks = await queue_up(semaphore, {})
    with pytest.raises(StageFailed) as caught:
        async with semaphore.step(0):
            pass
    assert caught.value.code == "synthesis_timeout"
    assert semaphore.waiting == 0
    release.set()
    await asyncio.wait(tasks)
    assert semaphore.running == 0


async def test_a_cancelled_waiter_is_skipped() -> None:
    semaphore = SynthesisSemaphore(1, 10, 5)
    order, release, tasks = await queue_up(semaphore, {"gone": 1.0, "next": 2.0})
    tasks[1].cancel()
    await asyncio.sleep(0)
    release.set()
    await asyncio.wait(tasks)
    assert order == ["next"]
    assert semaphore.running == 0


async def test_a_waiter_cancelled_in_the_moment_it_is_granted_gives_the_place_back() -> None:
    semaphore = SynthesisSemaphore(1, 10, 5)
    order, release, tasks = await queue_up(semaphore, {"gone": 1.0, "next": 2.0})
    release.set()
    await asyncio.sleep(0)  # the holder has released, the grant is set, the waiter has not run
    tasks[1].cancel()
    await asyncio.wait(tasks)
    assert order[-1] == "next"
    assert semaphore.running == 0
