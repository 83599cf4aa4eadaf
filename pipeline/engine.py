"""The engine: submit a request, get a stream of messages; abort; stats; shutdown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.cascade import OUTPUT_QUEUE, Cascade, Playhead, Stages
from pipeline.config import STAGE_NAMES, EngineConfig
from pipeline.cuda_pool import MAX_SLAB_NBYTES, devices_of
from pipeline.errors import StageFailed, StartFailed
from pipeline.hearing import HearingPool
from pipeline.links import SERVER, Link
from pipeline.listener import Listener
from pipeline.messages import (
    End,
    Failed,
    PipelineMessage,
    Plan,
    Speech,
    Start,
    TextDelta,
    TurnEnd,
)
from pipeline.precedence import Precedence
from pipeline.semaphore import SynthesisSemaphore
from pipeline.stages import STAGES
from pipeline.suspects import Given, Suspects
from pipeline.watermarking import mark_of
from pipeline.worker import Worker, WorkerState

log = logging.getLogger(__name__)

HEARING_SLOTS = 16
HEARING_SLOT_NBYTES = 1 << 20  # 32 s of 16 kHz int16
POISONED = "this request was running both times that a model process died; it is not tried again"
JUDGED_SLOT_NBYTES = 1 << 18  # 8 s, all that the turn detector looks at


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """One worker, now. pid: of its process; None for a thread, or while there is none."""

    pid: int | None
    state: WorkerState
    reason: str
    restarts: int
    requests: int
    steps: int
    load_s: float


@dataclass(frozen=True, slots=True)
class LinkStats:
    """One link's pool, now."""

    slots: int
    slot_nbytes: int
    lent: int


@dataclass(frozen=True, slots=True)
class EngineStats:
    """What the engine is doing. All counts are of this moment."""

    workers: dict[str, WorkerStats]
    links: dict[str, LinkStats]
    requests: int
    listeners: int
    synthesis_running: int
    synthesis_waiting: int
    synthesis_longest_wait_s: float


class Reply(AsyncIterator[PipelineMessage]):
    """The stream of one request. `aclose` aborts what is left of it."""

    def __init__(
        self, request_id: str, outputs: asyncio.Queue[PipelineMessage], playhead: Playhead
    ) -> None:
        self.request_id = request_id
        self.playhead = playhead
        self._outputs = outputs
        self._ended = False
        self.abort: Callable[[], None] = lambda: None

    async def __anext__(self) -> PipelineMessage:
        if self._ended:
            raise StopAsyncIteration
        message = await self._outputs.get()
        self._ended = isinstance(message, End | Failed)
        return message

    async def aclose(self) -> None:
        """Stop the request; safe to call at any time and more than once."""
        self.abort()

    def cut_short(self, failed: Failed) -> None:
        """Nothing of what is queued is wanted any more."""
        while not self._outputs.empty():
            self._outputs.get_nowait()
        self._outputs.put_nowait(failed)


class Engine:
    """Owns the workers, the pools and every request between submit and End."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: dict[str, tuple[Reply, asyncio.Task[None]]] = {}
        self._listeners: dict[str, Listener] = {}
        self._suspects = Suspects()
        self.mark = mark_of(config)
        self._links = self._make_links()
        self.workers = self._make_workers()
        # Plans that take an utterance: the worker, and the way of the audio to it.
        self._hearing = {
            Plan.TRANSCRIBE: ("transcriber", HearingPool(self._links["server-transcriber"])),
            Plan.JUDGE: ("turn_detector", HearingPool(self._links["server-turn_detector"])),
        }
        self.hears = STAGES[config.stages.thinker.kind].hears
        self.sees = STAGES[config.stages.thinker.kind].sees
        self.lacks = (
            STAGES[config.stages.thinker.kind].lacks | STAGES[config.stages.talker.kind].lacks
        )
        ears = HearingPool(self._links["server-thinker"]) if self.hears else None
        self.semaphore = SynthesisSemaphore(
            config.max_concurrent_synthesis, config.max_queued_synthesis, config.synthesis_timeout_s
        )
        self._precedence = Precedence()
        self._stages = Stages(
            thinker=self.workers["thinker"],
            talker=self.workers["talker"],
            voicebox=self.workers["voicebox"],
            semaphore=self.semaphore,
            precedence=self._precedence,
            hearing=ears,
            lead_ms=config.synthesis_lead_ms,
            sequential=config.cascade == "sequential",
        )
        self.workers["ears"].on_up.append(self._reopen_listeners)

    def _make_links(self) -> dict[str, Link]:
        config = self.config
        slots = config.max_requests * config.credits_per_request
        links = {
            "server-transcriber": Link("server-transcriber", HEARING_SLOTS, HEARING_SLOT_NBYTES),
            "server-turn_detector": Link("server-turn_detector", HEARING_SLOTS, JUDGED_SLOT_NBYTES),
        }
        if getattr(STAGES.get(config.stages.thinker.kind), "hears", False):
            links["server-thinker"] = Link("server-thinker", HEARING_SLOTS, HEARING_SLOT_NBYTES)
        chain = ("thinker", "talker", "voicebox", "server")
        for producer, consumer in zip(chain, chain[1:], strict=False):
            kind = getattr(config.stages, producer).kind
            if kind not in STAGES:
                known = ", ".join(STAGES)
                raise StartFailed(f"stages.{producer}.kind: no stage {kind!r}; there are {known}")
            nbytes = STAGES[kind].slot_nbytes
            if nbytes and config.handoff == "pool":
                name = f"{producer}-{consumer}"
                links[name] = self._make_link(name, producer, consumer, slots, nbytes)
        return links

    def _make_link(self, name: str, producer: str, consumer: str, slots: int, nbytes: int) -> Link:
        stages = self.config.stages
        devices = None
        if consumer != SERVER:
            devices = devices_of(getattr(stages, producer), getattr(stages, consumer))
        if devices is None:
            log.info("link %s: shared memory, %d slots of %d bytes", name, slots, nbytes)
            return Link(name, slots, nbytes)
        slots = max(1, min(slots, MAX_SLAB_NBYTES // nbytes))
        where = "cuda:{} to cuda:{}".format(*devices)
        log.info("link %s: CUDA, %s, %d slots of %d bytes", name, where, slots, nbytes)
        return Link(name, slots, nbytes, devices)

    def _make_workers(self) -> dict[str, Worker]:
        inbound = {
            "transcriber": "server-transcriber",
            "turn_detector": "server-turn_detector",
            "thinker": "server-thinker",
            "talker": "thinker-talker",
            "voicebox": "talker-voicebox",
        }
        outbound = {
            "thinker": "thinker-talker",
            "talker": "talker-voicebox",
            "voicebox": "voicebox-server",
        }
        return {
            name: Worker(
                name,
                getattr(self.config.stages, name),
                self.config,
                self._links.get(inbound.get(name, "")),
                self._links.get(outbound.get(name, "")),
                gated=name == "voicebox",
                mark=self.mark if name == "voicebox" else None,
            )
            for name in STAGE_NAMES
        }

    # -- life ------------------------------------------------------------------------------------

    async def start(self, stages: tuple[str, ...] = STAGE_NAMES) -> None:
        """Start the workers and load their models. Raises StartFailed naming what failed.

        stages: those that are needed; requests that run through others fail.
        """
        if "voicebox" in stages:
            log.info("watermark: %s", self.mark or "OFF: what is said is not marked")
        for name in stages:
            self._own(self.workers[name].supervise(), f"supervise-{name}")
        try:
            async with asyncio.TaskGroup() as loads:
                for name in stages:
                    loads.create_task(self.workers[name].loaded())
        except* StartFailed as group:
            await self.shutdown()
            raise StartFailed("; ".join(str(error) for error in group.exceptions)) from None

    async def shutdown(self) -> None:
        """Stop all requests and workers, and free the pools. Safe to call twice."""
        for request_id in list(self._requests):
            self.abort(request_id)
        for listener in list(self._listeners.values()):
            listener.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for link in self._links.values():
            link.close()

    def not_ready(self) -> dict[str, str]:
        """Workers that cannot serve now, and why."""
        return {
            name: f"{worker.state}: {worker.reason}" if worker.reason else str(worker.state)
            for name, worker in self.workers.items()
            if worker.state is not WorkerState.READY
        }

    def stats(self) -> EngineStats:
        """A snapshot."""
        return EngineStats(
            workers={
                name: WorkerStats(
                    worker.pid,
                    worker.state,
                    worker.reason,
                    worker.restarts,
                    worker.requests,
                    worker.steps,
                    worker.load_s,
                )
                for name, worker in self.workers.items()
            },
            links={
                name: LinkStats(link.layout.slots, link.layout.slot_nbytes, len(link.lent))
                for name, link in self._links.items()
            },
            requests=len(self._requests),
            listeners=len(self._listeners),
            synthesis_running=self.semaphore.running,
            synthesis_waiting=self.semaphore.waiting,
            synthesis_longest_wait_s=self.semaphore.longest_wait_s,
        )

    # -- requests --------------------------------------------------------------------------------

    def submit(
        self,
        start: Start,
        audio: NDArray[np.int16] | None = None,
        *,
        pictures: Sequence[NDArray[np.uint8]] = (),
        paced: bool = False,
    ) -> Reply:
        """Run a request; the stream always ends in End or Failed, and closing it aborts.

        audio: 16 kHz mono, for `Plan.TRANSCRIBE` and `Plan.JUDGE`; for others, the recordings in
        the prompt one after the other, if the Thinker hears.
        pictures: those in the prompt, RGB [height, width, 3], if the Thinker sees.
        paced: synthesis keeps at most `synthesis_lead_ms` ahead of what `note_played` has told.
        """
        if start.request_id in self._requests:
            raise ValueError(f"request {start.request_id!r} is running already")
        # Stage after stage, all is made before any is heard: there is no playhead to wait for.
        playhead = Playhead(
            paced=paced and self.config.cascade == "streamed", speculative=start.speculative
        )
        # Not begun before its task runs: a task that is cancelled at once leaves nothing behind.
        work: Callable[[], Coroutine[Any, Any, End | Failed]]
        if start.plan in self._hearing:
            outputs: asyncio.Queue[PipelineMessage] = asyncio.Queue(OUTPUT_QUEUE)
            samples = audio if audio is not None else np.zeros(0, np.int16)
            work = partial(self._hear, start, samples, outputs)
        else:
            cascade = Cascade(start, self._stages, playhead, audio, pictures)
            outputs, work = cascade.outputs, cascade.run
        reply = Reply(start.request_id, outputs, playhead)
        reply.abort = lambda: self._abort(reply)
        if len(self._requests) >= self.config.max_requests:
            reply.cut_short(Failed("rate_limit_exceeded", "the server is at its limit of requests"))
            return reply
        given = (*(() if audio is None else (audio,)), *pictures)
        if self._suspects.convicted(start, given):
            reply.cut_short(Failed("poisoned_request", POISONED))
            return reply
        task = self._own(self._watch(work, start, given), start.request_id)
        self._requests[start.request_id] = (reply, task)
        if not start.background:
            self._precedence.press(start.request_id)
        task.add_done_callback(lambda _: self._forget(reply))
        return reply

    def note_played(self, request_id: str, samples: int) -> None:
        """Tell how many samples of a reply its listener has heard; paces synthesis."""
        if request_id in self._requests:
            self._requests[request_id][0].playhead.play(samples)

    def release(self, request_id: str) -> None:
        """A speculative reply is wanted after all. Unknown ids are ignored."""
        if request_id in self._requests:
            self._requests[request_id][0].playhead.release()

    def abort(self, request_id: str) -> None:
        """Stop a request everywhere. Unknown ids are ignored."""
        if request_id in self._requests:
            self._abort(self._requests[request_id][0])

    def _abort(self, reply: Reply) -> None:
        known, task = self._requests.get(reply.request_id, (None, None))
        if known is reply and task is not None:
            task.cancel()
            self._forget(reply)
            reply.cut_short(Failed("aborted", "the request was aborted"))

    def _forget(self, reply: Reply) -> None:
        if self._requests.get(reply.request_id, (None,))[0] is reply:
            del self._requests[reply.request_id]
            self._precedence.relax(reply.request_id)

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._let_go)
        return task

    def _let_go(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task %s failed", task.get_name(), exc_info=error)
            if task.get_name() in self._requests:
                reply, _ = self._requests[task.get_name()]
                reply.cut_short(Failed("engine_error", f"{type(error).__name__}: {error}"))

    async def _watch(
        self,
        work: Callable[[], Coroutine[Any, Any, End | Failed]],
        start: Start,
        given: Given,
    ) -> None:
        last = await work()
        if isinstance(last, Failed) and last.code == "worker_died":
            lives = sum(worker.epoch for worker in self.workers.values())
            self._suspects.accuse(start, given, death=lives)
        elif isinstance(last, End):
            self._suspects.acquit(start, given)

    async def _hear(
        self,
        start: Start,
        audio: NDArray[np.int16],
        outputs: asyncio.Queue[PipelineMessage],
    ) -> End | Failed:
        last: End | Failed = End()
        try:
            stage, pool = self._hearing[start.plan]
            port = self.workers[stage].open(start)
            try:
                if start.background:
                    await self._precedence.give_way()
                await pool.feed(port, audio)
                while not isinstance(message := (await port.receive()).message, End):
                    if isinstance(message, TextDelta | TurnEnd):
                        await outputs.put(message)
                last = message
            finally:
                port.close()
        except StageFailed as failure:
            last = Failed(failure.code, str(failure))
        await outputs.put(last)
        return last

    # -- ears ------------------------------------------------------------------------------------

    def listen(self, session_id: str, on_speech: Callable[[Speech], None]) -> Listener:
        """Open a place in the ears; `on_speech` is called on the loop, in order of samples."""
        listener = Listener(session_id, self.workers["ears"], on_speech)
        listener.on_close = lambda: self._leave(session_id)
        self._listeners[session_id] = listener
        self._own(listener.run(), f"listen-{session_id}")
        return listener

    def _leave(self, session_id: str) -> None:
        self._listeners.pop(session_id, None)

    def _reopen_listeners(self) -> None:
        for listener in self._listeners.values():
            listener.worker_is_up()
