"""Requests that end at any point leave nothing behind: no slot, permit, task or descriptor."""

from __future__ import annotations

import asyncio
import gc
import os
import random
from typing import Any

import numpy as np
import pytest
from scripted_engine import Placement, ask, scripted_engine

from pipeline.engine import Engine
from pipeline.messages import INPUT_RATE_HZ, Audio, Plan, Start

ABORTED = 400
ABREAST = 8
SLOW: dict[str, Any] = {
    "thinker": {"text": "One two three four five six seven.", "token_ms": 1},
    "talker": {"char_ms": 60},
    "voicebox": {"step_ms": 1},
}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def is_at_rest(engine: Engine) -> bool:
    stats = engine.stats()
    lent = sum(link.lent for link in stats.links.values())
    open_in_workers = sum(worker.requests for worker in stats.workers.values())
    waiting = stats.synthesis_running + stats.synthesis_waiting
    return stats.requests == lent == open_in_workers == waiting == 0


async def settle(engine: Engine) -> None:
    """Wait until nothing is under way; each turn of the loop brings it nearer."""
    async with asyncio.timeout(20):
        while not is_at_rest(engine):  # noqa: ASYNC110 - the engine tells nobody that it rests
            await asyncio.sleep(0)


async def run_a_while(engine: Engine, number: int, rng: random.Random) -> None:
    """One request, left after so many messages: at its end, in its middle, or before it began."""
    patience = rng.choice([0, 0, 1, 2, 3, 5, 8, 1000])
    kind = rng.random()
    if kind < 0.15:
        start = Start(f"hear-{number}", rng.choice([Plan.TRANSCRIBE, Plan.JUDGE]))
        reply = engine.submit(start, np.full(2 * INPUT_RATE_HZ, 9, np.int16))
    else:
        start = ask(f"say-{number}", rng.choice([Plan.SPEECH, Plan.TTS, Plan.TEXT]))
        reply = engine.submit(start, paced=rng.random() < 0.5)
    heard = 0
    async for message in reply:
        patience -= 1
        if isinstance(message, Audio):
            heard += message.samples
            engine.note_played(start.request_id, heard)
        if patience <= 0:
            break
    if rng.random() < 0.5:
        engine.abort(start.request_id)
    await reply.aclose()


@pytest.mark.parametrize("placement", ["thread", "process"])
@pytest.mark.parametrize("seed", [1, 2])
async def test_aborts_at_random_points_leave_nothing_behind(
    placement: Placement, seed: int
) -> None:
    rng = random.Random(seed)
    async with scripted_engine(placement, **SLOW) as engine:
        numbers = iter(range(ABORTED))

        async def talk() -> None:
            for number in numbers:
                await run_a_while(engine, number, rng)

        for number in range(50):  # what is made once is made now
            await run_a_while(engine, -1 - number, rng)
        await settle(engine)
        gc.collect()
        tasks, open_files = len(asyncio.all_tasks()), descriptors()
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for _ in range(ABREAST):
                group.create_task(talk())
        await settle(engine)
        gc.collect()
        assert len(asyncio.all_tasks()) == tasks
        assert descriptors() <= open_files
        restarts = [worker.restarts for worker in engine.stats().workers.values()]
        assert restarts == [0] * len(restarts)
        # And it still works.
        messages = [message async for message in engine.submit(ask("last"))]
        assert sum(m.samples for m in messages if isinstance(m, Audio)) > 0


async def test_a_listener_that_leaves_is_gone() -> None:
    async with scripted_engine() as engine:
        for number in range(50):
            listener = engine.listen(f"session-{number}", lambda speech: None)
            listener.feed(np.zeros(1024, np.int16))
            listener.close()
        await settle(engine)
        assert engine.stats().listeners == 0
