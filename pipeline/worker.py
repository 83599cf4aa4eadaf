"""A stage's worker, from the server's side: start it, watch it, start it again, talk to it.

A worker is a process (or, where asked for, a thread) that runs one stage. It is seen to have died
when its socket closes, to have stopped when its beats stop, and to hang when a step takes too long;
in all three cases the requests it carried fail and a new incarnation is started.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Any, cast

from pipeline.config import EngineConfig, StageConfig
from pipeline.control import (
    Beat,
    Consumed,
    Emit,
    FrameReader,
    LoadFailed,
    Ready,
    Release,
    Stepped,
    WorkerSpec,
    pack,
)
from pipeline.errors import StageFailed, StartFailed
from pipeline.links import Link
from pipeline.messages import Start
from pipeline.pool import Lease
from pipeline.port import OUTPUT_WINDOW, Port
from pipeline.runner import ControlSocket, build_runner
from pipeline.watermarking import Mark

log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 10.0
EXIT_GRACE_S = 2.0
STALL_S = 0.5
MAX_UNSENT_NBYTES = 16 << 20

SPINS = "1000"
"""How often OpenMP's threads look whether the others have come before they sleep (GOMP_SPINCOUNT).
By default 300,000 times, which is 13 ms for which a thread takes the core that the one it waits for
needs: beside one other busy process a prompt of 10 tokens took 282 ms instead of 94. With 300 times
they sleep too soon (59 instead of 44 ms on a quiet machine)."""


class WorkerState(StrEnum):
    """Life of a worker."""

    STARTING = "starting"
    READY = "ready"
    DOWN = "down"
    STOPPED = "stopped"


class Worker:
    """One stage's worker across all its incarnations."""

    def __init__(
        self,
        name: str,
        stage: StageConfig,
        config: EngineConfig,
        inbound: Link | None,
        outbound: Link | None,
        *,
        gated: bool = False,
        mark: Mark | None = None,
    ) -> None:
        self.name = name
        self.stage = stage
        self.inbound = inbound
        self.outbound = outbound
        self.state = WorkerState.STARTING
        self.reason = "loading"
        self.epoch = 0
        self.load_s = 0.0
        self.steps = 0
        self.config = config
        self._gated = gated
        self._mark = mark
        self._ports: dict[str, Port] = {}
        self._incarnation: _Incarnation | None = None
        self._up = asyncio.Event()
        self._first_load: asyncio.Future[None] | None = None
        self.on_up: list[Callable[[], None]] = []
        if outbound is not None:
            outbound.tell_producer = self._tell_released

    @property
    def restarts(self) -> int:
        """How often the worker had to be started again."""
        return max(0, self.epoch - 1)

    @property
    def pid(self) -> int | None:
        """Process id; None for a thread, or while there is no incarnation."""
        process = self._incarnation.process if self._incarnation else None
        return process.pid if process else None

    @property
    def requests(self) -> int:
        """Requests that the worker carries now."""
        return len(self._ports)

    def open(self, start: Start) -> Port:
        """Begin a request at this stage. Raises StageFailed while the worker is down."""
        if self.state is not WorkerState.READY:
            raise StageFailed(
                "worker_unavailable", f"the {self.name} is {self.state}: {self.reason}"
            )
        port = self._ports[start.request_id] = Port(self, start)
        return port

    def forget(self, request_id: str) -> None:
        """The port is closed; what still comes for it is given back."""
        self._ports.pop(request_id, None)

    def send(self, message: object) -> None:
        """Queue a control message; those of one turn of the loop share a frame."""
        if self._incarnation is not None:
            self._incarnation.send(message)

    async def loaded(self) -> None:
        """Wait for the first incarnation to be ready. Raises StartFailed if it cannot."""
        self._first_load = self._first_load or asyncio.get_running_loop().create_future()
        await asyncio.shield(self._first_load)

    async def supervise(self) -> None:
        """Keep an incarnation alive until cancelled. The engine's task, one per worker."""
        self._first_load = self._first_load or asyncio.get_running_loop().create_future()
        backoff_s = FIRST_BACKOFF_S
        try:
            while True:
                self.epoch += 1
                served_s = await self._live()
                if not self._first_load.done():
                    self._first_load.set_exception(StartFailed(f"{self.name}: {self.reason}"))
                    return
                backoff_s = FIRST_BACKOFF_S if served_s > 60 else min(backoff_s * 2, LAST_BACKOFF_S)
                log.error("%s worker: %s; restart in %.1f s", self.name, self.reason, backoff_s)
                await asyncio.sleep(backoff_s)
        finally:
            self.state = WorkerState.STOPPED

    async def _live(self) -> float:
        """One incarnation from start to death; returns how long it has served."""
        loop = asyncio.get_running_loop()
        self.state, self.reason = WorkerState.STARTING, "loading"
        incarnation = self._incarnation = _Incarnation(self, self._spec())
        began_s = loop.time()
        kill = False
        try:
            await incarnation.start()
            self.reason = await incarnation.watch()
            kill = True
        except OSError as error:
            self.reason = f"could not be started: {error}"
        finally:
            self.state = WorkerState.DOWN
            self._incarnation = None
            self._fail_requests()
            await incarnation.stop(kill=kill)
        return loop.time() - began_s if incarnation.was_ready else 0.0

    def _spec(self) -> WorkerSpec:
        return WorkerSpec(
            name=self.name,
            stage=self.stage,
            home=self.config.home,
            epoch=self.epoch,
            gated=self._gated,
            credits_per_request=self._credits(),
            output_window=OUTPUT_WINDOW,
            beat_interval_s=min(0.5, self.config.heartbeat_timeout_s / 5),
            inbound=self.inbound.port if self.inbound else None,
            outbound=self.outbound.port if self.outbound else None,
            borrowed=self.outbound.lent if self.outbound else (),
            mark=self._mark,
            trace=self.config.trace,
        )

    def _credits(self) -> int:
        # Stage after stage, a link must hold a whole reply.
        sequential = self.config.cascade == "sequential" and self.outbound is not None
        return (
            self.outbound.layout.slots
            if sequential and self.outbound
            else (self.config.credits_per_request)
        )

    def _fail_requests(self) -> None:
        failure = StageFailed("worker_died", f"the {self.name} worker {self.reason}")
        ports, self._ports = self._ports, {}
        for port in ports.values():
            port.fail(failure)
        if self.inbound is not None:
            self.inbound.release_all("consumer")

    def _tell_released(self, lease: Lease) -> None:
        self.send(Release(lease))

    # -- called by the incarnation ---------------------------------------------------------------

    def receive(self, message: Any) -> None:
        """Route one message of the worker."""
        match message:
            case Emit():
                self._route(message)
            case Stepped(request_id):
                self.steps += 1
                port = self._ports.get(request_id)
                if port is not None:
                    port.receive_stepped(message)
            case Consumed(lease):
                if self.inbound is not None:
                    self.inbound.release(lease)
            case Ready(load_s):
                self._become_ready(load_s)

    def _route(self, emitted: Emit) -> None:
        if self.outbound is not None:
            self.outbound.hold(emitted.payload)
        port = self._ports.get(emitted.request_id)
        if port is not None:
            port.receive_emit(emitted)
        elif self.outbound is not None:
            self.outbound.release(emitted.payload)

    def _become_ready(self, load_s: float) -> None:
        self.state, self.reason, self.load_s = WorkerState.READY, "", load_s
        log.info("%s worker is ready after %.2f s", self.name, load_s)
        if self._first_load is not None and not self._first_load.done():
            self._first_load.set_result(None)
        for callback in self.on_up:
            callback()


class _Incarnation(asyncio.Protocol):
    """One life of a worker: its socket, its process or thread, its deadlines."""

    def __init__(self, worker: Worker, spec: WorkerSpec) -> None:
        self._worker = worker
        self._spec = spec
        self._frames = FrameReader()
        self._transport: asyncio.Transport | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._unsent: list[object] = [spec]
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._beat_s = 0.0

    @property
    def was_ready(self) -> bool:
        """Whether this life has served at all."""
        return self._ready.done()

    async def start(self) -> None:
        """Create the socket pair and the process or thread at its other end."""
        spec = self._spec
        ours, theirs = socket.socketpair()
        if spec.stage.placement == "process":
            with theirs:
                self.process = await asyncio.to_thread(_spawn, spec, theirs)
        else:
            self._thread = threading.Thread(
                target=_run_in_thread,
                args=(self._worker, spec, theirs),
                name=f"sori-{spec.name}",
                daemon=True,
            )
            self._thread.start()
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self, sock=ours)
        self._beat_s = loop.time()
        self._flush()

    async def watch(self) -> str:
        """Wait for the end of this life; returns the reason."""
        config = self._worker.config
        # Until the stage is loaded no beat is due: imports hold the interpreter for seconds.
        first: list[asyncio.Future[Any]] = [self._ready, self._ended]
        done, _ = await asyncio.wait(
            first,
            timeout=config.load_timeout_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not done:
            return f"did not load within {config.load_timeout_s:g} s"
        if self.process is None:
            return await asyncio.shield(self._ended)
        return await self._watch_beats(config.heartbeat_timeout_s)

    async def _watch_beats(self, timeout_s: float) -> str:
        loop = asyncio.get_running_loop()
        while True:
            due_s = self._beat_s + timeout_s
            done, _ = await asyncio.wait([self._ended], timeout=due_s - loop.time())
            if done:
                return self._ended.result()
            if loop.time() > due_s + STALL_S:
                self._beat_s = loop.time()  # it was this loop that stood still: listen again
            elif loop.time() >= self._beat_s + timeout_s:
                return f"gave no sign of life for {loop.time() - self._beat_s:.1f} s"

    async def stop(self, *, kill: bool) -> None:
        """Close the socket, which ends the worker, and see it off.

        kill: it has failed already, and may not be able to end by itself.
        """
        if self._transport is not None:
            self._transport.abort()
        if self.process is not None:
            if kill:
                self.process.kill()
            await asyncio.to_thread(_see_off, self.process)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, EXIT_GRACE_S)

    def send(self, message: object) -> None:
        """Queue for the frame of this turn of the loop."""
        if self._transport is not None and not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(message)

    def _flush(self) -> None:
        assert self._transport is not None
        unsent, self._unsent = self._unsent, []
        if self._transport.is_closing():
            return
        self._transport.write(pack(unsent))
        if self._transport.get_write_buffer_size() > MAX_UNSENT_NBYTES:
            self._end("does not read its socket")

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    # -- asyncio.Protocol ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is up."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Frames from the worker."""
        for message in self._frames.receive_data(data):
            match message:
                case Beat(step_s):
                    self._beat_s = asyncio.get_running_loop().time()
                    if step_s > self._worker.config.step_timeout_s:
                        self._end(f"hung in a step for {step_s:.1f} s")
                case LoadFailed(text):
                    self._end(f"could not load: {text}")
                case _:
                    if isinstance(message, Ready):
                        self._beat_s = asyncio.get_running_loop().time()
                        self._ready.set_result(None)
                    self._worker.receive(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """The worker's end is closed: it has died, or has been told to go."""
        self._end("died")


def _spawn(spec: WorkerSpec, sock: socket.socket) -> subprocess.Popen[bytes]:
    """A fresh interpreter, never a fork: forked native runtimes deadlock."""
    ports = [port for port in (spec.inbound, spec.outbound) if port is not None]
    threads = str(spec.stage.threads)
    limits = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": threads}
    return subprocess.Popen(
        # The name is for whoever looks at the list of processes.
        [sys.executable, "-m", "pipeline.worker_process", str(sock.fileno()), spec.name],
        pass_fds=[sock.fileno(), *(port.fd for port in ports)],
        env={"GOMP_SPINCOUNT": SPINS, **os.environ, **limits},
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # a terminal's Ctrl-C is the server's to handle
    )


def _see_off(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(EXIT_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _run_in_thread(worker: Worker, spec: WorkerSpec, sock: socket.socket) -> None:
    control = ControlSocket(sock)
    control.receive_first()
    inbound = worker.inbound.memory if worker.inbound else None
    outbound = worker.outbound.memory if worker.outbound else None
    build_runner(spec, control, inbound, outbound).run()
