"""One request on its way through the stages: tasks joined by bounded queues.

Each task moves messages over one joint and owns what it holds. They overlap like cogs: VoiceBox
speaks the first clause while the Thinker writes the second sentence.

    thinker ─▶ conditions ─▶ talker ─▶ frames ─▶ voicebox ─▶ outputs
        └───────────────── text, tool calls ───────────────────┘
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.control import Emit
from pipeline.errors import StageFailed
from pipeline.hearing import HearingPool
from pipeline.messages import (
    OUTPUT_RATE_HZ,
    Alignment,
    Audio,
    Condition,
    End,
    Failed,
    Frames,
    Mark,
    PipelineMessage,
    Plan,
    Start,
    TextDelta,
    ToolCallDelta,
)
from pipeline.pool import Inline
from pipeline.port import Port
from pipeline.precedence import Precedence
from pipeline.semaphore import SPECULATIVE_DEADLINE_S, SynthesisSemaphore
from pipeline.worker import Worker

T = TypeVar("T")

OUTPUT_QUEUE = 64
CONDITION_QUEUE = 64

FIRST_CHUNK_PATIENCE_MS = 250
"""How long a reply may be kept from its first chunk by replies that would run dry meanwhile."""


@dataclass(frozen=True, slots=True)
class Stages:
    """The workers a cascade runs through, and what it needs of the engine."""

    thinker: Worker
    talker: Worker
    voicebox: Worker
    semaphore: SynthesisSemaphore
    precedence: Precedence
    hearing: HearingPool | None  # of a Thinker that takes recordings
    lead_ms: int
    sequential: bool = False


class Playhead:
    """How much of a reply has been made and how much of it has been heard, in samples."""

    def __init__(self, *, paced: bool, speculative: bool = False) -> None:
        self.paced = paced
        self.speculative = speculative
        self._made = 0
        self._played = 0
        self._moved = asyncio.Event()

    @property
    def begun(self) -> bool:
        """Whether any of it has been made."""
        return self._made > 0

    @property
    def lead_ms(self) -> float:
        """Milliseconds made but not yet heard."""
        return max(0, self._made - self._played) * 1000 / OUTPUT_RATE_HZ

    def make(self, samples: int) -> None:
        """More audio exists."""
        self._made += samples

    def play(self, samples: int) -> None:
        """The listener has heard this many samples of the reply."""
        self._played = max(self._played, samples)
        self._moved.set()

    def release(self) -> None:
        """It was no mere guess: what has been made will be heard."""
        self.speculative = False
        self._moved.set()

    def has_enough(self, lead_ms: int) -> bool:
        """Whether no more is wanted for now: the lead is long, or there is a chunk of a guess."""
        return (self.paced and self.lead_ms >= lead_ms) or (self.speculative and self.begun)

    async def wait_below(self, lead_ms: int) -> None:
        """Wait until more is wanted."""
        while self.has_enough(lead_ms):
            self._moved.clear()
            await self._moved.wait()


class Cascade:
    """Runs one `Start` with a Thinker, or a text that is given, through to its last sample."""

    def __init__(
        self,
        start: Start,
        stages: Stages,
        playhead: Playhead,
        recordings: NDArray[np.int16] | None = None,
        pictures: Sequence[NDArray[np.uint8]] = (),
    ) -> None:
        self._start = start
        self._recordings = recordings
        self._pictures = pictures
        self._stages = stages
        self._playhead = playhead
        self.outputs: asyncio.Queue[PipelineMessage] = asyncio.Queue(OUTPUT_QUEUE)
        self._conditions: asyncio.Queue[Emit] = asyncio.Queue(CONDITION_QUEUE)
        self._marked: set[str] = set()
        self._end = End()
        self._synthesis_due = asyncio.Event()
        self._audio_over = False

    async def run(self) -> End | Failed:
        """Run the stages to the end; whatever happens, the last output is End or Failed.

        It is returned, too.
        """
        last: End | Failed = self._end
        with contextlib.ExitStack() as ports:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._run_stages(ports, tasks))
            except* StageFailed as group:
                last = as_failed(group)
            else:
                last = self._end
            finally:
                while not self._conditions.empty():
                    self._give_back(self._stages.thinker, self._conditions.get_nowait())
        await self.outputs.put(last)
        return last

    async def _run_stages(self, ports: contextlib.ExitStack, tasks: asyncio.TaskGroup) -> None:
        start, stages = self._start, self._stages

        def open_port(worker: Worker) -> Port:
            port = worker.open(start)
            ports.callback(port.close)
            return port

        if start.plan is Plan.TTS:
            tasks.create_task(self._give_text())
        else:
            thinker = open_port(stages.thinker)
            thinker.begin()
            tasks.create_task(self._think(thinker))
            given = self._recordings is not None or self._pictures
            if given and stages.hearing is not None:
                samples = np.zeros(0, np.int16) if self._recordings is None else self._recordings
                tasks.create_task(stages.hearing.feed(thinker, samples, self._pictures))
        if start.plan is not Plan.TEXT:
            talker, voicebox = open_port(stages.talker), open_port(stages.voicebox)
            tasks.create_task(self._converse(talker))
            tasks.create_task(self._hand_over(talker, voicebox))
            tasks.create_task(self._synthesise(voicebox))
            tasks.create_task(self._speak(voicebox))

    # -- the joints ------------------------------------------------------------------------------

    async def _think(self, thinker: Port) -> None:
        """Thinker → text to the outputs, conditions to the Talker."""
        await self._mark("thinker_start")
        while True:
            emitted = await thinker.receive()
            match message := emitted.message:
                case TextDelta():
                    await self._mark("first_text")
                    await self.outputs.put(message)
                case ToolCallDelta():
                    await self.outputs.put(message)
                case Condition() if self._start.plan is not Plan.TEXT:
                    await self._conditions.put(emitted)
                case End():
                    self._end = message
                    await self._mark("thinker_end")
                    await self._conditions.put(emitted)
                    return

    async def _give_text(self) -> None:
        """The given text stands in for the Thinker."""
        text = self._start.items[-1].text if self._start.items else ""
        await self.outputs.put(TextDelta(text))
        for message in (Condition(text=text), End()):
            await self._conditions.put(Emit(self._start.request_id, message))

    async def _converse(self, talker: Port) -> None:
        """Conditions → Talker: leases pass through, nothing is copied."""
        conditions = self._in_turn(self._conditions.get, self._stages.thinker)
        async with aclosing(conditions):
            async for one in conditions:
                if self._start.background:
                    await self._stages.precedence.give_way()
                await talker.feed(one.message, one.payload, one.part, one.parts)

    async def _hand_over(self, talker: Port, voicebox: Port) -> None:
        """Talker → VoiceBox: leases pass through, nothing is copied."""

        async def receive() -> Emit:
            emitted = await talker.receive()
            if isinstance(emitted.message, Frames):
                await self._mark("first_frames")
            return emitted

        frames = self._in_turn(receive, self._stages.talker)
        async with aclosing(frames):
            async for emitted in frames:
                # Before as well: a permit that is free goes into the frame of what it is for.
                self._synthesis_due.set()
                await voicebox.feed(emitted.message, emitted.payload, emitted.part, emitted.parts)
                self._synthesis_due.set()

    async def _synthesise(self, voicebox: Port) -> None:
        """Step the VoiceBox whenever it has work, more audio is wanted, and its turn has come."""
        more = False
        clock = asyncio.get_running_loop().time
        while not self._audio_over:
            if not more and not voicebox.unconsumed:
                self._synthesis_due.clear()
                await self._synthesis_due.wait()
                continue
            await self._wait_until_wanted()
            lead_ms = self._playhead.lead_ms
            # A reply nobody hears yet cannot run dry: those that are heard and nearly dry go first.
            wait_ms = lead_ms if self._playhead.begun else FIRST_CHUNK_PATIENCE_MS
            if self._start.background:
                # Behind whoever listens, and not for ever: the deadline stands still.
                wait_ms = self._stages.lead_ms + min(wait_ms, self._stages.lead_ms)
            deadline_s = clock() + wait_ms / 1000
            if self._playhead.speculative:
                deadline_s = SPECULATIVE_DEADLINE_S
            async with self._stages.semaphore.step(deadline_s):
                more = await voicebox.step(lead_ms)

    async def _wait_until_wanted(self) -> None:
        precedence, enough_ms = self._stages.precedence, self._stages.lead_ms
        if self._playhead.has_enough(enough_ms):
            precedence.relax(self._start.request_id)
            await self._playhead.wait_below(enough_ms)
            if not self._start.background:
                precedence.press(self._start.request_id)
        if self._start.background:
            await precedence.give_way()

    async def _speak(self, voicebox: Port) -> None:
        """VoiceBox → outputs: audio is copied out here, so that no lease leaves the engine."""
        link = self._stages.voicebox.outbound

        async def receive() -> Alignment | Audio | End:
            emitted = await voicebox.receive()
            message = emitted.message
            if isinstance(message, Audio) and emitted.payload is not None:
                if isinstance(emitted.payload, Inline):
                    pcm = emitted.payload.data
                else:
                    assert link is not None
                    pcm = link.view(emitted.payload).tobytes()
                    link.release(emitted.payload)
                self._playhead.make(len(pcm) // 2)
                await self._mark("first_audio")
                return Audio(len(pcm) // 2, pcm)
            assert isinstance(message, Alignment | End)
            return message

        messages = self._in_turn(receive, self._stages.voicebox)
        async with aclosing(messages):
            async for message in messages:
                if isinstance(message, End):
                    self._audio_over = True
                    self._synthesis_due.set()
                    await self._mark("audio_end")
                else:
                    await self.outputs.put(message)

    # --------------------------------------------------------------------------------------------

    async def _in_turn(
        self, receive: Callable[[], Awaitable[T]], producer: Worker
    ) -> AsyncGenerator[T]:
        """What `receive` gives, up to and with End; stage after stage, only once End is there."""
        held: deque[T] = deque()
        ended = False
        try:
            while not ended:
                item = await receive()
                ended = isinstance(item.message if isinstance(item, Emit) else item, End)
                held.append(item)
                while held and (ended or not self._stages.sequential):
                    yield held.popleft()
        finally:
            for item in held:
                self._give_back(producer, item)

    def _give_back(self, producer: Worker, item: object) -> None:
        """Nobody wants what this one made any more."""
        if isinstance(item, Emit) and producer.outbound is not None:
            producer.outbound.release(item.payload)

    async def _mark(self, name: str) -> None:
        if name not in self._marked:
            self._marked.add(name)
            await self.outputs.put(Mark(name, time.monotonic()))


def as_failed(group: BaseExceptionGroup[StageFailed]) -> Failed:
    """The first failure of a group; the others are its echoes."""
    failure: BaseException = group
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    assert isinstance(failure, StageFailed)
    return Failed(failure.code, str(failure))
