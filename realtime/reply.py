"""One reply on its way out: text at once, audio paced and encoded, the end when all is sent.

The engine makes speech faster than it is heard. Sound waits here, at most `QUEUED_CHUNKS` chunks of
it, and the engine is told how far the listener has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.engine import Engine
from pipeline.messages import (
    OUTPUT_RATE_HZ,
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
from realtime.commands import Picture, Recording
from realtime.heard_prompt import with_recordings
from realtime.pacing import Clock, Pacer, Playhead
from realtime.sight import decoded

PIECE_SAMPLES = OUTPUT_RATE_HZ // 5  # 200 ms: even flow, and frames far below 1 MiB
QUEUED_CHUNKS = 64


class VoiceEncoder(Protocol):
    """24 kHz samples in; payloads in the client's format out, each with how many it holds."""

    def encode(self, pcm: NDArray[np.int16]) -> Sequence[tuple[bytes, int]]:
        """Payloads that are complete now."""

    def flush(self) -> Sequence[tuple[bytes, int]]:
        """The rest."""


class Listener(Protocol):
    """Where a reply goes."""

    def receive_message(self, start: Start, message: PipelineMessage) -> None:
        """Text, tool calls, alignment, and last an End or Failed."""

    def receive_audio(self, start: Start, payload: bytes, samples: int) -> None:
        """A payload that is to be sent now, and how many 24 kHz samples it holds."""

    def receive_prepared(self, start: Start) -> None:
        """A speculative reply has something to give, or has ended. Told once, until released."""

    def receive_timings(self, start: Start, timings_ms: Mapping[str, int]) -> None:
        """Milliseconds since the reply began; told once, before its end."""


class Reply:
    """Runs one request to its end. Cancelling `run` stops it, and nothing more is sent.

    Times of the record are from `zero_s`, on `clock`; points: what happened before. A speculative
    reply tells its listener nothing until `release`. recordings, pictures: in its prompt.
    """

    def __init__(
        self,
        engine: Engine,
        start: Start,
        make_encoder: Callable[[], VoiceEncoder],
        listener: Listener,
        *,
        lead_ms: int,
        clock: Clock,
        zero_s: float,
        points: Mapping[str, float] | None = None,
        recordings: Sequence[Recording] = (),
        pictures: Sequence[Picture] = (),
        on_underrun: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._start = start
        self._recordings = recordings
        self._pictures = pictures
        self._make_encoder = make_encoder
        self._listener = listener
        self._clock = clock
        self._zero_s = zero_s
        self._on_underrun = on_underrun
        self._playhead = Playhead(OUTPUT_RATE_HZ, lead_ms)
        self._pacer = Pacer(self._playhead, clock)
        self._queue: asyncio.Queue[Alignment | Audio | None] = asyncio.Queue(QUEUED_CHUNKS)
        self._released = asyncio.Event()
        self._withheld: list[PipelineMessage] = []
        self._prepared = False
        self._paused = False
        if not start.speculative:
            self._released.set()
        self._timings_ms: dict[str, int] = {}
        for name, at_s in (points or {}).items():
            self._note(name, at_s)

    def release(self, points: Mapping[str, float]) -> None:
        """The guess was right: hand over what was withheld. points: as at the beginning."""
        for name, at_s in points.items():
            self._note(name, at_s)
        self._engine.release(self._start.request_id)
        self._released.set()
        if not self._paused:
            self._hand_over()

    def _hand_over(self) -> None:
        withheld, self._withheld = self._withheld, []
        for message in withheld:
            self._listener.receive_message(self._start, message)

    def pause(self) -> None:
        """Tell the listener nothing until `resume`: it may be interrupting."""
        self._paused = True
        self._pacer.pause()

    def resume(self) -> None:
        """It was not: hand over what was withheld, and go on from where its playback stopped."""
        self._paused = False
        self._pacer.resume()
        self._hand_over()

    @property
    def played(self) -> int:
        """Samples that its listener has heard, at 24 kHz. Goes on after the end of `run`."""
        return self._playhead.played(self._clock())

    async def run(self) -> None:
        """Everything from submit to the last payload; then the timings and the end.

        Raises what the engine or the encoder raises, in an ExceptionGroup.
        """
        async with asyncio.TaskGroup() as tasks:
            playing = tasks.create_task(self._play())
            end = await self._read()
            if isinstance(end, Failed):
                # What is still queued would be half a sentence.
                playing.cancel()
            else:
                await self._queue.put(None)
        await self._released.wait()
        await self._pacer.going()
        self._note("end", self._clock())
        self._listener.receive_timings(self._start, self._timings_ms)
        self._listener.receive_message(self._start, end)

    async def _read(self) -> End | Failed:
        start, recordings = await with_recordings(self._start, self._recordings)
        pictures = await decoded(self._pictures)
        # What was released before it could be submitted is no guess any more: the engine, which
        # does not know it yet, has ignored that release, and would stop at its first chunk.
        guess = self._start.speculative and not self._released.is_set()
        start = replace(start, speculative=guess)
        submitted = self._engine.submit(start, recordings, pictures=pictures, paced=True)
        async with aclosing(submitted) as messages:
            async for message in messages:
                self._tell_if_prepared(message)
                match message:
                    case End() | Failed():
                        return message
                    case Audio() | Alignment():
                        await self._queue.put(message)
                    case Mark(name=name, at_s=at_s):
                        self._note(name, at_s)
                    case _ if self._released.is_set() and not self._paused:
                        self._listener.receive_message(self._start, message)
                    case _:
                        self._withheld.append(message)
        return Failed("server_error", "The reply ended without its end.")

    def _tell_if_prepared(self, message: PipelineMessage) -> None:
        spoken = self._start.plan is not Plan.TEXT
        wanted = (Audio | End | Failed) if spoken else (TextDelta | End | Failed)
        if not self._prepared and isinstance(message, wanted):
            self._prepared = True
            if not self._released.is_set():
                self._listener.receive_prepared(self._start)

    async def _play(self) -> None:
        encoder = self._make_encoder()
        describing: list[Alignment] = []
        await self._released.wait()
        while (message := await self._queue.get()) is not None:
            if isinstance(message, Alignment):
                describing.append(message)
                continue
            pcm = np.frombuffer(message.pcm, np.int16)
            for first in range(0, len(pcm), PIECE_SAMPLES):
                piece = pcm[first : first + PIECE_SAMPLES]
                await self._admit(len(piece))
                for alignment in describing:
                    self._listener.receive_message(self._start, alignment)
                describing.clear()
                self._send(encoder.encode(piece))
        await self._pacer.going()
        self._send(encoder.flush())

    async def _admit(self, samples: int) -> None:
        underruns = self._playhead.underruns
        played = await self._pacer.admit(samples)
        self._engine.note_played(self._start.request_id, played)
        if self._playhead.underruns > underruns:
            self._on_underrun()

    def _send(self, payloads: Sequence[tuple[bytes, int]]) -> None:
        for payload, samples in payloads:
            if "first_audio_sent" not in self._timings_ms:
                self._note("first_audio_sent", self._clock())
            self._listener.receive_audio(self._start, payload, samples)

    def _note(self, name: str, at_s: float) -> None:
        self._timings_ms[name] = round((at_s - self._zero_s) * 1000)
