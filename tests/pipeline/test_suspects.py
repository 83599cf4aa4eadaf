"""A request that kills its worker is tried twice, and not for ever."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import numpy as np
from scripted_engine import ask, collect, scripted_engine

from pipeline.engine import Engine
from pipeline.messages import End, Failed, Plan, Start
from pipeline.suspects import REMEMBERED, Suspects


async def last_of(engine: Engine, start: Start) -> End | Failed:
    last = (await collect(engine.submit(start)))[-1]
    assert isinstance(last, End | Failed)
    return last


async def test_the_third_time_it_is_refused_and_others_are_not() -> None:
    async with scripted_engine("process", thinker={"faults": {"boom": "crash"}}) as engine:
        up = asyncio.Event()
        engine.workers["thinker"].on_up.append(up.set)
        for number in range(2):
            up.clear()
            failed = await last_of(engine, ask(f"kill-{number}", Plan.TEXT, "boom"))
            assert isinstance(failed, Failed)
            assert failed.code == "worker_died"
            async with asyncio.timeout(20):
                await up.wait()
        refused = await last_of(engine, ask("kill-2", Plan.TEXT, "boom"))
        assert isinstance(refused, Failed)
        assert refused.code == "poisoned_request"
        assert engine.stats().workers["thinker"].restarts == 2
        assert isinstance(await last_of(engine, ask("other", Plan.TEXT, "Hello.")), End)


def test_who_asks_makes_no_difference_and_what_is_asked_does() -> None:
    suspects = Suspects()
    start = ask("a", text="boom")
    for death, request_id in enumerate("ab"):
        twin = replace(start, request_id=request_id, speculative=request_id == "a")
        suspects.accuse(twin, (), death)
    assert suspects.convicted(replace(start, request_id="c", session_id="s"), ())
    assert not suspects.convicted(replace(start, voice="ash"), ())
    assert not suspects.convicted(ask("a", text="boom!"), ())
    assert not suspects.convicted(start, [np.ones(5, np.int16)])


def test_a_bystander_is_acquitted_by_its_first_good_end() -> None:
    suspects = Suspects()
    start = ask("a", text="Hello.")
    suspects.accuse(start, (), 1)
    suspects.acquit(replace(start, request_id="b"), ())
    suspects.accuse(start, (), 2)
    assert not suspects.convicted(start, ())
    suspects.accuse(start, (), 3)
    assert suspects.convicted(start, ())


async def test_two_that_ask_the_same_are_not_refused_for_one_death() -> None:
    async with scripted_engine("process", thinker={"token_ms": 5}) as engine:
        up = asyncio.Event()
        engine.workers["thinker"].on_up.append(up.set)
        replies = [engine.submit(ask(name, Plan.TEXT, "Hello.")) for name in ("one", "other")]
        for reply in replies:
            await anext(reply)
        pid = engine.workers["thinker"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        for reply in replies:
            assert isinstance((await collect(reply))[-1], Failed)
        async with asyncio.timeout(20):
            await up.wait()
        assert isinstance(await last_of(engine, ask("third", Plan.TEXT, "Hello.")), End)


async def test_an_end_between_two_deaths_clears_the_request() -> None:
    async with scripted_engine("process", thinker={"token_ms": 5}) as engine:
        up = asyncio.Event()
        engine.workers["thinker"].on_up.append(up.set)
        for number in range(2):
            up.clear()
            reply = engine.submit(ask(f"victim-{number}", Plan.TEXT))
            await anext(reply)
            pid = engine.workers["thinker"].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            messages = await collect(reply)
            assert isinstance(messages[-1], Failed)
            async with asyncio.timeout(20):
                await up.wait()
            assert isinstance(await last_of(engine, ask(f"again-{number}", Plan.TEXT)), End)


def test_only_so_many_are_remembered() -> None:
    suspects = Suspects()
    first = ask("a", text="first")
    suspects.accuse(first, (), 1)
    suspects.accuse(first, (), 2)
    assert suspects.convicted(first, ())
    for number in range(REMEMBERED):
        suspects.accuse(ask("a", text=str(number)), (), number)
    assert not suspects.convicted(first, ())
