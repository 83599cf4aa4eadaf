"""A reply on its way out, from an engine that the test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scripted_engine import ask, scripted_engine

from pipeline.engine import Engine
from pipeline.messages import (
    Alignment,
    Audio,
    End,
    Failed,
    Mark,
    PipelineMessage,
    Plan,
    Start,
    TextDelta,
)
from realtime.reply import PIECE_SAMPLES, Reply

START = Start("r1", Plan.SPEECH)


def audio(samples: int) -> Audio:
    return Audio(samples, np.zeros(samples, np.int16).tobytes())


class ScriptedEngine:
    def __init__(self, *messages: PipelineMessage | Exception) -> None:
        self.messages = messages
        self.heard: list[int] = []
        self.released: list[str] = []
        self.closed = False

    async def submit(
        self,
        start: Start,
        audio: NDArray[np.int16] | None = None,
        *,
        pictures: Sequence[NDArray[np.uint8]] = (),
        paced: bool,
    ) -> AsyncIterator[PipelineMessage]:
        assert paced
        try:
            for message in self.messages:
                if isinstance(message, Exception):
                    raise message
                yield message
        finally:
            self.closed = True

    def release(self, request_id: str) -> None:
        self.released.append(request_id)

    def note_played(self, request_id: str, samples: int) -> None:
        assert request_id == START.request_id
        self.heard.append(samples)


class ByteEncoder:
    """One byte a sample, so that a test can count."""

    def encode(self, pcm: NDArray[np.int16]) -> list[tuple[bytes, int]]:
        return [(bytes(len(pcm)), len(pcm))]

    def flush(self) -> list[tuple[bytes, int]]:
        return [(b"tail", 4)]


class Recorder:
    def __init__(self) -> None:
        self.log: list[Any] = []
        self.timings_ms: Mapping[str, int] = {}
        self.spoke = asyncio.Event()
        self.prepared = asyncio.Event()

    def receive_message(self, start: Start, message: PipelineMessage) -> None:
        self.log.append(message)

    def receive_audio(self, start: Start, payload: bytes, samples: int) -> None:
        self.log.append(samples)
        self.spoke.set()

    def receive_prepared(self, start: Start) -> None:
        self.prepared.set()

    def receive_timings(self, start: Start, timings_ms: Mapping[str, int]) -> None:
        self.timings_ms = timings_ms


def make(
    engine: ScriptedEngine, recorder: Recorder, lead_ms: int = 60_000, start: Start = START
) -> Reply:
    return Reply(
        cast(Engine, engine),
        start,
        ByteEncoder,
        recorder,
        lead_ms=lead_ms,
        clock=lambda: 12.0,
        zero_s=10.0,
    )


async def test_audio_goes_out_in_pieces_and_the_end_comes_after_it() -> None:
    engine = ScriptedEngine(TextDelta("Hi."), audio(PIECE_SAMPLES + 7), audio(5), End())
    recorder = Recorder()

    await make(engine, recorder).run()

    assert recorder.log == [TextDelta("Hi."), PIECE_SAMPLES, 7, 5, 4, End()]
    assert engine.heard == [0, 0, 0]
    assert engine.closed


async def test_alignment_goes_out_just_before_the_audio_it_describes() -> None:
    spans = Alignment(((0, 2, 5),))
    recorder = Recorder()

    await make(ScriptedEngine(audio(3), spans, audio(5), End()), recorder).run()

    assert recorder.log == [3, spans, 5, 4, End()]


async def test_timings_count_from_zero_and_are_told_before_the_end() -> None:
    engine = ScriptedEngine(Mark("first_text", 10.25), audio(5), End())
    recorder = Recorder()

    await make(engine, recorder).run()

    assert recorder.timings_ms == {"first_text": 250, "first_audio_sent": 2000, "end": 2000}


async def test_text_does_not_wait_for_the_audio_before_it() -> None:
    engine = ScriptedEngine(audio(24_000), TextDelta("later"), End())
    recorder = Recorder()
    # The clock stands still, so that the second piece is never due.
    running = asyncio.create_task(make(engine, recorder, lead_ms=100).run())
    await recorder.spoke.wait()
    for _ in range(5):
        await asyncio.sleep(0)

    assert recorder.log == [TextDelta("later"), PIECE_SAMPLES]

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_failed_reply_drops_the_audio_that_waits() -> None:
    failed = Failed("stage_died", "the voicebox died")
    recorder = Recorder()

    await make(ScriptedEngine(audio(48_000), failed), recorder, lead_ms=100).run()

    assert recorder.log[-1] == failed
    assert recorder.log.count(PIECE_SAMPLES) <= 1


async def test_a_cancelled_reply_closes_its_request_and_sends_nothing_more() -> None:
    engine = ScriptedEngine(*[audio(24_000)] * 100)
    recorder = Recorder()
    running = asyncio.create_task(make(engine, recorder, lead_ms=100).run())
    await recorder.spoke.wait()
    sent = len(recorder.log)

    running.cancel()
    await asyncio.wait([running])

    assert engine.closed
    assert len(recorder.log) == sent


async def test_a_stream_that_stops_without_an_end_is_a_failure() -> None:
    recorder = Recorder()

    await make(ScriptedEngine(TextDelta("cut")), recorder).run()

    assert isinstance(recorder.log[-1], Failed)


async def test_what_the_engine_raises_comes_out() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await make(ScriptedEngine(RuntimeError("broken")), Recorder()).run()

    assert caught.group_contains(RuntimeError, match="broken")


async def test_a_guess_that_is_released_before_it_is_submitted_is_spoken_to_its_end() -> None:
    text = "Many words, and more than one chunk of them."
    recorder = Recorder()
    async with scripted_engine(thinker={"text": text}) as engine, asyncio.timeout(10):
        reply = Reply(
            engine,
            replace(ask("r"), speculative=True),
            ByteEncoder,
            recorder,
            lead_ms=60_000,
            clock=lambda: 12.0,
            zero_s=10.0,
        )
        reply.release({})
        await reply.run()
    assert isinstance(recorder.log[-1], End)
    sent = sum(one for one in recorder.log if isinstance(one, int))
    assert sent == len(text) * 50 * 24 + 4  # 50 ms a character, and the encoder's tail


async def test_a_speculative_reply_tells_nothing_until_it_is_released() -> None:
    engine = ScriptedEngine(TextDelta("Hi."), Mark("first_text", 10.5), audio(5), End())
    recorder = Recorder()
    reply = make(engine, recorder, start=replace(START, speculative=True))
    running = asyncio.create_task(reply.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert engine.closed
    assert recorder.log == []

    reply.release({"turn_end": 11.0})
    await running

    assert engine.released == [START.request_id]
    assert recorder.log == [TextDelta("Hi."), 5, 4, End()]
    assert recorder.timings_ms["turn_end"] == 1000
    assert recorder.timings_ms["first_text"] == 500


async def test_a_paused_reply_tells_nothing_and_goes_on_where_it_stopped() -> None:
    engine = ScriptedEngine(TextDelta("Hi."), audio(5), TextDelta(" You."), audio(7), End())
    recorder = Recorder()
    reply = make(engine, recorder)
    running = asyncio.create_task(reply.run())
    await recorder.spoke.wait()
    before = list(recorder.log)
    reply.pause()
    for _ in range(20):
        await asyncio.sleep(0)
    assert recorder.log == before

    reply.resume()
    await running

    said = [entry for entry in recorder.log if isinstance(entry, TextDelta)]
    sent = [entry for entry in recorder.log if isinstance(entry, int)]
    assert said == [TextDelta("Hi."), TextDelta(" You.")]
    assert sent == [5, 7, 4]
    assert recorder.log[-1] == End()


async def test_a_reply_paused_before_it_runs_waits() -> None:
    recorder = Recorder()
    reply = make(ScriptedEngine(TextDelta("Hi."), audio(5), End()), recorder)
    reply.pause()
    running = asyncio.create_task(reply.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert recorder.log == []
    reply.resume()
    await running
    assert recorder.log == [TextDelta("Hi."), 5, 4, End()]
