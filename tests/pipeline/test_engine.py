"""The engine over scripted stages: order, overlap, abort, faults, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_engine import Placement, ask, collect, scripted_engine, scripted_stages

from pipeline.config import STAGE_NAMES, EngineConfig
from pipeline.engine import Engine, Reply
from pipeline.errors import StartFailed
from pipeline.messages import (
    Alignment,
    Audio,
    End,
    Failed,
    Mark,
    PipelineMessage,
    Plan,
    Sampling,
    Speech,
    Start,
    TextDelta,
)

TEXT = "One two three. Four five six."
PLACEMENTS: list[Placement] = ["thread", "process"]


def said(messages: list[PipelineMessage]) -> str:
    return "".join(message.text for message in messages if isinstance(message, TextDelta))


def samples(messages: list[PipelineMessage]) -> int:
    return sum(message.samples for message in messages if isinstance(message, Audio))


def is_idle(engine: Engine) -> bool:
    stats = engine.stats()
    return (
        stats.requests == 0
        and stats.synthesis_running == stats.synthesis_waiting == 0
        and all(link.lent == 0 for link in stats.links.values())
        and all(worker.requests == 0 for worker in stats.workers.values())
    )


async def settle(engine: Engine) -> None:
    await until(lambda: is_idle(engine))


async def until(condition: Callable[[], bool]) -> None:
    """Look at every millisecond; the test's timeout is the limit."""
    while not condition():  # noqa: ASYNC110 - the condition lies in another process
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("placement", PLACEMENTS)
async def test_a_spoken_reply_has_its_text_its_sound_and_its_alignment(
    placement: Placement,
) -> None:
    async with scripted_engine(placement, thinker={"text": TEXT}) as engine:
        messages = await collect(engine.submit(ask("r")))
        assert said(messages) == TEXT
        assert samples(messages) == len(TEXT) * 50 * 24  # 50 ms a character
        spans = [s for m in messages if isinstance(m, Alignment) for s in m.spans]
        assert spans[-1] == (TEXT.rindex(" "), len(TEXT), samples(messages))
        assert spans == sorted(spans)
        assert isinstance(messages[-1], End)
        assert sum(isinstance(message, End | Failed) for message in messages) == 1
        await settle(engine)


async def test_the_voice_starts_before_the_thinker_has_finished() -> None:
    async with scripted_engine(thinker={"text": TEXT, "token_ms": 20}) as engine:
        marks = [m.name for m in await collect(engine.submit(ask("r"))) if isinstance(m, Mark)]
    assert marks.index("first_audio") < marks.index("thinker_end")


async def test_a_sequential_cascade_does_not_overlap() -> None:
    limits = {"cascade": "sequential"}
    async with scripted_engine("thread", limits, thinker={"text": TEXT, "token_ms": 5}) as engine:
        messages = await collect(engine.submit(ask("r")))
    marks = [message.name for message in messages if isinstance(message, Mark)]
    assert marks.index("thinker_end") < marks.index("first_frames") < marks.index("first_audio")
    assert samples(messages) == len(TEXT) * 50 * 24


async def test_a_text_plan_makes_no_sound() -> None:
    async with scripted_engine(thinker={"text": TEXT}) as engine:
        messages = await collect(engine.submit(ask("r", Plan.TEXT)))
        assert said(messages) == TEXT
        assert samples(messages) == 0
        assert engine.stats().workers["talker"].steps == 0


async def test_a_given_text_is_spoken_without_the_thinker() -> None:
    async with scripted_engine() as engine:
        messages = await collect(engine.submit(ask("r", Plan.TTS, "Read me.")))
        assert said(messages) == "Read me."
        assert samples(messages) == len("Read me.") * 50 * 24
        assert engine.stats().workers["thinker"].steps == 0


async def test_max_tokens_ends_the_reply_as_length() -> None:
    async with scripted_engine(thinker={"text": TEXT}) as engine:
        start = Start("r", Plan.TEXT, sampling=Sampling(max_tokens=2))
        messages = await collect(engine.submit(start))
    assert said(messages) == "One two"
    end = messages[-1]
    assert isinstance(end, End)
    assert end.reason == "length"


async def test_a_long_utterance_reaches_the_transcriber_whole() -> None:
    async with scripted_engine("process") as engine:
        audio = np.full(16_000 * 90, 1000, np.int16)
        messages = await collect(engine.submit(Start("t", Plan.TRANSCRIBE), audio))
        end = messages[-1]
        assert isinstance(end, End)
        assert end.meta["seconds"] == 90
        await settle(engine)


async def test_ears_report_every_window_in_order() -> None:
    async with scripted_engine() as engine:
        heard: list[Speech] = []
        listener = engine.listen("s", heard.append)
        for level in [0] * 5 + [3000] * 5:
            listener.feed(np.full(512, level, np.int16))
        await until(lambda: len(heard) == 10)
        assert [speech.end_sample for speech in heard] == [512 * i for i in range(1, 11)]
        assert [speech.probability > 0.5 for speech in heard] == [False] * 5 + [True] * 5
        listener.close()
        listener.close()
        await settle(engine)
        assert engine.stats().listeners == 0


async def test_an_aborted_reply_ends_and_leaves_nothing() -> None:
    async with scripted_engine("process", thinker={"text": TEXT * 5, "token_ms": 2}) as engine:
        for after in range(0, 40, 4):
            reply = engine.submit(ask(f"r{after}"))
            seen = []
            async for message in reply:
                seen.append(message)
                if len(seen) == after:
                    engine.abort(f"r{after}")
            assert isinstance(seen[-1], Failed | End)
        await settle(engine)


async def test_closing_the_stream_aborts_the_request() -> None:
    async with scripted_engine(thinker={"text": TEXT, "token_ms": 50}) as engine:
        reply = engine.submit(ask("r"))
        await anext(reply)
        await reply.aclose()
        await reply.aclose()
        assert engine.stats().requests == 0
        await settle(engine)


async def test_synthesis_waits_for_the_listener() -> None:
    text = "word " * 100  # 25 s of tone
    limits = {"synthesis_lead_ms": 1000}
    async with scripted_engine("thread", limits, thinker={"text": text}) as engine:
        reply = engine.submit(ask("r"), paced=True)
        made = 0
        async for message in reply:
            if isinstance(message, Audio):
                made += message.samples
                assert reply.playhead.lead_ms <= 1000 + 200
                if reply.playhead.lead_ms >= 1000:  # nothing more would come
                    engine.note_played("r", made)
        assert made == len(text) * 50 * 24


async def test_a_guess_is_given_one_chunk_until_it_is_released() -> None:
    limits = {"synthesis_lead_ms": 60_000}
    async with scripted_engine("thread", limits, thinker={"text": TEXT * 5}) as engine:
        reply = engine.submit(replace(ask("r"), speculative=True), paced=True)
        made: list[PipelineMessage] = []
        while not any(isinstance(message, Audio) for message in made):
            made.append(await anext(reply))
        await until(lambda: engine.stats().workers["talker"].requests == 1)
        # Everything that can happen without a release has happened once the others are done.
        assert isinstance((await collect(engine.submit(ask("other"))))[-1], End)
        await until(lambda: engine.stats().requests == 1)
        assert reply.playhead.lead_ms <= 200  # a chunk
        engine.release("r")
        rest = await collect(reply)
        assert samples(made) + samples(rest) == len(TEXT * 5) * 50 * 24
        await settle(engine)


async def test_a_job_is_spoken_behind_those_who_listen_and_the_youngest_job_first() -> None:
    text = "word " * 40
    limits = {"max_concurrent_synthesis": 1, "synthesis_lead_ms": 2000}
    deadlines: dict[str, list[float]] = {}
    async with scripted_engine("thread", limits, thinker={"text": text}) as engine:
        step = engine.semaphore.step

        def noted(deadline_s: float) -> Any:
            ahead_s = deadline_s - asyncio.get_running_loop().time()
            deadlines.setdefault(current, []).append(ahead_s)
            return step(deadline_s)

        engine.semaphore.step = noted  # type: ignore[method-assign]
        for current, background in (("live", False), ("job", True)):
            reply = engine.submit(
                replace(ask(current), background=background), paced=not background
            )
            async for message in reply:
                if isinstance(message, Audio) and not background:
                    engine.note_played(current, 10**9)
    assert max(deadlines["live"]) <= 2.0 < min(deadlines["job"])
    assert deadlines["job"][0] < 2.5
    assert deadlines["job"][-1] == pytest.approx(4.0, abs=0.01)


async def test_a_job_gives_way_while_a_conversation_waits_for_its_reply() -> None:
    async with scripted_engine("thread", thinker={"text": TEXT, "first_ms": 300}) as engine:
        order: list[str] = []

        async def note(reply: Reply) -> None:
            audible = [one async for one in reply if isinstance(one, Audio)]
            assert audible
            order.append(reply.request_id)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(note(engine.submit(ask("live"))))
            # It needs no Thinker, so it would be the first.
            job = replace(ask("job", Plan.TTS, TEXT), background=True)
            tasks.create_task(note(engine.submit(job)))
        assert order == ["live", "job"]
        await settle(engine)


async def test_a_job_goes_on_while_a_listener_has_enough() -> None:
    limits = {"synthesis_lead_ms": 1000}
    async with scripted_engine("thread", limits, thinker={"text": "word " * 40}) as engine:
        live = engine.submit(ask("live"), paced=True)
        while live.playhead.lead_ms < 1000:
            await anext(live)
        job = replace(ask("job", Plan.TTS, TEXT), background=True)
        async with asyncio.timeout(1.5):  # it would wait longer for each of its steps
            assert samples(await collect(engine.submit(job)))
        await live.aclose()
        await settle(engine)


async def test_one_synthesis_at_a_time_serves_many() -> None:
    limits = {"max_concurrent_synthesis": 1}
    async with scripted_engine("process", limits, thinker={"text": TEXT}) as engine:
        async with asyncio.TaskGroup() as tasks:
            replies = [tasks.create_task(collect(engine.submit(ask(f"r{i}")))) for i in range(20)]
        assert {samples(reply.result()) for reply in replies} == {len(TEXT) * 50 * 24}
        await settle(engine)


async def test_a_request_over_the_limit_is_refused_at_once() -> None:
    limits = {"max_requests": 1}
    async with scripted_engine("thread", limits, thinker={"token_ms": 50}) as engine:
        first = engine.submit(ask("a"))
        refused = await collect(engine.submit(ask("b")))
        assert refused == [Failed("rate_limit_exceeded", "the server is at its limit of requests")]
        assert isinstance((await collect(first))[-1], End)


async def test_a_fault_of_one_request_fails_it_alone() -> None:
    async with scripted_engine("process", thinker={"faults": {"poison": "raise"}}) as engine:
        async with asyncio.TaskGroup() as tasks:
            bad = tasks.create_task(collect(engine.submit(ask("bad", text="poison"))))
            good = tasks.create_task(collect(engine.submit(ask("good"))))
        assert bad.result()[-1] == Failed("scripted_fault", "the script said so")
        assert isinstance(good.result()[-1], End)
        assert engine.stats().workers["thinker"].restarts == 0
        await settle(engine)


@pytest.mark.parametrize("stage", ["thinker", "talker", "voicebox"])
async def test_a_killed_worker_fails_its_replies_and_comes_back(stage: str) -> None:
    slow = {"text": TEXT * 3, "token_ms": 30}
    async with scripted_engine("process", thinker=slow) as engine:
        reply = engine.submit(ask("r"))
        while not isinstance(await anext(reply), Audio):
            pass
        kill_worker(engine, stage, signal.SIGKILL)
        rest = await collect(reply)
        assert rest[-1] == Failed("worker_died", f"the {stage} worker died")
        await ready_again(engine)
        assert engine.stats().workers[stage].restarts == 1
        assert isinstance((await collect(engine.submit(ask("next"))))[-1], End)
        await settle(engine)


async def test_a_stopped_worker_is_missed_by_its_heartbeat() -> None:
    limits = {"heartbeat_timeout_s": 1}
    async with scripted_engine("process", limits) as engine:
        kill_worker(engine, "talker", signal.SIGSTOP)
        messages = await collect(engine.submit(ask("r")))
        failed = messages[-1]
        assert isinstance(failed, Failed)
        assert "no sign of life" in failed.message
        await ready_again(engine)
        assert isinstance((await collect(engine.submit(ask("next"))))[-1], End)


async def test_a_step_that_hangs_costs_the_worker_its_life() -> None:
    limits = {"step_timeout_s": 0.5, "heartbeat_timeout_s": 1}
    async with scripted_engine("process", limits, thinker={"faults": {"abyss": "hang"}}) as engine:
        messages = await collect(engine.submit(ask("r", text="abyss")))
        failed = messages[-1]
        assert isinstance(failed, Failed)
        assert "hung in a step" in failed.message
        await ready_again(engine)
        assert isinstance((await collect(engine.submit(ask("next"))))[-1], End)


async def test_ears_that_die_are_heard_through_again() -> None:
    async with scripted_engine("process") as engine:
        heard: list[Speech] = []
        listener = engine.listen("s", heard.append)
        listener.feed(np.zeros(512, np.int16))
        await until(lambda: bool(heard))
        kill_worker(engine, "ears", signal.SIGKILL)
        await until(lambda: engine.stats().workers["ears"].restarts == 1)
        await ready_again(engine)
        await asyncio.sleep(0)
        heard.clear()
        listener.feed(np.zeros(512, np.int16))
        await until(lambda: bool(heard))
        assert heard[0].end_sample == 1024
        listener.close()


async def test_a_stage_that_cannot_load_is_named() -> None:
    stages = scripted_stages("process")
    stages.talker.kind = "hibari_talker"
    engine = Engine(EngineConfig(stages=stages, home=Path("/nonexistent/models")))
    with pytest.raises(StartFailed, match="talker: could not load"):
        await engine.start()


def test_an_unknown_stage_is_named() -> None:
    stages = scripted_stages()
    stages.thinker.kind = "oracle"
    with pytest.raises(StartFailed, match=r"stages\.thinker\.kind: no stage 'oracle'"):
        Engine(EngineConfig(stages=stages))


async def test_shutdown_leaves_no_process() -> None:
    async with scripted_engine("process") as engine:
        pids = list(worker_pids(engine).values())
        assert len(pids) == len(STAGE_NAMES)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(("set_by_user", "spins"), [(None, "1000"), ("7", "7")])
async def test_threads_of_workers_do_not_spin_for_long(
    monkeypatch: pytest.MonkeyPatch, set_by_user: str | None, spins: str
) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    if set_by_user:
        monkeypatch.setenv("GOMP_SPINCOUNT", set_by_user)
    async with scripted_engine("process") as engine:
        for pid in worker_pids(engine).values():
            assert f"GOMP_SPINCOUNT={spins}" in environment_of(pid)


def environment_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_text().split("\0")


def worker_pids(engine: Engine) -> dict[str, int]:
    return {name: worker.pid for name, worker in engine.workers.items() if worker.pid}


def kill_worker(engine: Engine, name: str, sig: signal.Signals) -> None:
    os.kill(worker_pids(engine)[name], sig)


async def ready_again(engine: Engine) -> None:
    await until(lambda: not engine.not_ready())


@pytest.mark.parametrize("placement", ["thread", "process"])
async def test_without_pools_the_same_is_said(placement: Placement) -> None:
    heard = []
    for handoff in ("pool", "pickle"):
        async with scripted_engine(placement, {"handoff": handoff}) as engine:
            assert ("voicebox-server" in engine.stats().links) == (handoff == "pool")
            messages = await collect(engine.submit(ask("one")))
        heard.append(b"".join(one.pcm for one in messages if isinstance(one, Audio)))
    assert heard[0] == heard[1]
    assert len(heard[0]) > 24_000
