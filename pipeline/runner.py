"""Runs one stage: control messages in, steps, outputs out. The whole life of a worker's thread.

The loop sleeps until the socket or a stage's `wake` says that there is something to do. A request
enters a step only when its last outputs are on their way (output credit), so a slow consumer slows
its own request and nobody else's.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.control import (
    Beat,
    Close,
    Consumed,
    Credit,
    Emit,
    Feed,
    FrameReader,
    LoadFailed,
    Open,
    Permit,
    PoolPort,
    Ready,
    Release,
    Stepped,
    WorkerSpec,
    pack,
)
from pipeline.cuda_pool import CudaPoolReader, CudaPoolWriter
from pipeline.cuda_runtime import CudaError, CudaRuntime
from pipeline.memory import SharedMemory
from pipeline.messages import End, Failed, StageMessage, Start
from pipeline.pool import (
    INLINE_NBYTES,
    Inline,
    Lease,
    PoolReader,
    PoolWriter,
    StaleLease,
    cut,
    host_array,
    inline,
    unpack,
)
from pipeline.stage import Array, Input, Output, Stage, StageError, StageSettings, Work
from pipeline.stages import create_stage
from pipeline.trace import Trace
from pipeline.watermarking import marked

log = logging.getLogger(__name__)

RECEIVE_NBYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class _Part:
    """An output on its way out; its array waits for a slot."""

    message: StageMessage
    array: Array | None
    part: int = 0
    parts: int = 1


@dataclass(slots=True)
class _Request:
    """What the runner knows of one live request."""

    start: Start
    inputs: deque[Feed] = field(default_factory=deque)
    outbox: deque[_Part] = field(default_factory=deque)
    more: bool = True  # every request may step once without input
    lead_ms: float | None = None  # set by a Permit, taken by a step
    steps: int = 0
    unacknowledged: int = 0
    closing: bool = False  # the stage is done with it; only its outbox is left


class ServerGone(Exception):
    """The control socket has closed: the worker has nobody to work for."""


class ControlSocket:
    """The worker's end of the pipe. `send` may be called from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._lock = threading.Lock()
        self._frames = FrameReader()
        self.pending: list[Any] = []

    def send(self, messages: list[Any]) -> None:
        """Send one frame. Raises ServerGone when nobody listens any more."""
        data = pack(messages)
        with self._lock:
            try:
                self.sock.sendall(data)
            except OSError as error:
                raise ServerGone from error

    def receive_first(self) -> Any:
        """Block until the first message is there; what came with it waits in `pending`."""
        while not self.pending:
            self.pending = self.receive()
        return self.pending.pop(0)

    def receive(self) -> list[Any]:
        """Read what has arrived; blocks only if nothing has. Raises ServerGone at the end."""
        try:
            data = self.sock.recv(RECEIVE_NBYTES)
        except OSError as error:
            raise ServerGone from error
        if not data:
            raise ServerGone
        return list(self._frames.receive_data(data))


class Runner:
    """One stage, its requests, and its ends of two links."""

    def __init__(
        self,
        spec: WorkerSpec,
        control: ControlSocket,
        reader: PoolReader | None,
        writer: PoolWriter | None,
    ) -> None:
        self._spec = spec
        self._control = control
        self._reader = reader
        self._writer = writer
        self._finish_reading = reader.finish if reader is not None else lambda: None
        self._requests: dict[str, _Request] = {}
        self._out: list[Any] = []
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._woken: deque[str] = deque()
        self._stage: Stage | None = None
        self.step_began_s = 0.0
        self._trace = Trace(spec.trace, spec.name) if spec.trace is not None else None

    def run(self) -> None:
        """Load the stage and serve until the server is gone. Owns the beat thread."""
        stopped = threading.Event()
        beats = threading.Thread(target=self._beat, args=(stopped,), name="beat", daemon=True)
        beats.start()
        try:
            stage = self._load()
            if stage is not None:
                self._stage = stage
                self._serve(stage)
        except ServerGone:
            pass
        finally:
            stopped.set()
            for request_id in list(self._requests):
                self._drop(request_id)
            if self._trace is not None:
                self._trace.close()
            self._control.sock.close()
            self._wake_in.close()
            self._wake_out.close()
            beats.join()

    # -- life ------------------------------------------------------------------------------------

    def _load(self) -> Stage | None:
        began_s = time.monotonic()
        config = self._spec.stage
        try:
            stage = create_stage(
                config.kind,
                StageSettings(config.threads, config.device, self._spec.home, config.options),
            )
            if self._spec.mark is not None:
                stage = marked(stage, self._spec.mark)
            stage.wake = self._wake
            stage.load()
        except Exception as error:  # noqa: BLE001 - process boundary: the server says what failed
            self._control.send([LoadFailed(f"{type(error).__name__}: {error}")])
            return None
        if config.placement == "process":
            # What loading has made stays to the end: no collection need look at it again.
            gc.collect()
            gc.freeze()
        self._control.send([Ready(time.monotonic() - began_s)])
        return stage

    def _beat(self, stopped: threading.Event) -> None:
        while not stopped.wait(self._spec.beat_interval_s):
            began_s = self.step_began_s
            step_s = time.monotonic() - began_s if began_s else 0.0
            if self._stage is not None:
                step_s = max(step_s, self._stage.stalled_s())
            try:
                self._control.send([Beat(step_s)])
            except ServerGone:
                if self._spec.stage.placement == "process":
                    # The step may be deep in native code, and nobody waits for its result.
                    os._exit(1)
                return

    def _wake(self, request_id: str) -> None:
        self._woken.append(request_id)
        # A full pipe means that the loop is awake already; a closed one, that it has ended.
        with contextlib.suppress(BlockingIOError, OSError):
            self._wake_out.send(b"\0")

    def _serve(self, stage: Stage) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._control.sock, selectors.EVENT_READ, self._receive_control)
            selector.register(self._wake_in, selectors.EVENT_READ, self._receive_wake)
            self._handle(stage, self._control.pending)
            while True:
                ready = self._ready()
                for key, _ in selector.select(0 if ready else None):
                    handler: Callable[[Stage], None] = key.data
                    handler(stage)
                ready = self._ready()
                if stage.batched and ready:
                    self._step(stage, ready)
                else:
                    for request_id in self._in_turn(ready):
                        if request_id in self._requests:
                            self._step(stage, [request_id])
                self._send()

    def _send(self) -> None:
        if self._out:
            out, self._out = self._out, []
            self._control.send(out)

    # -- input -----------------------------------------------------------------------------------

    def _receive_wake(self, stage: Stage) -> None:
        self._wake_in.recv(4096)
        while self._woken:
            request = self._requests.get(self._woken.popleft())
            if request is not None:
                request.more = True

    def _receive_control(self, stage: Stage) -> None:
        self._handle(stage, self._control.receive())

    def _handle(self, stage: Stage, messages: list[Any]) -> None:
        for message in messages:
            match message:
                case Open(start):
                    self._open(stage, start)
                case Close(request_id):
                    self._drop(request_id)
                case Release(lease):
                    self._release(lease)
                case Feed() | Permit() | Credit():
                    self._advance(message)
        self._send()

    def _advance(self, message: Feed | Permit | Credit) -> None:
        request = self._requests.get(message.request_id)
        if isinstance(message, Feed):
            if request is None or request.closing:
                self._consume(message)
            else:
                request.inputs.append(message)
        elif request is not None and isinstance(message, Permit):
            request.lead_ms = message.lead_ms
        elif request is not None and isinstance(message, Credit):
            request.unacknowledged -= message.messages
            self._flush(message.request_id, request)

    def _open(self, stage: Stage, start: Start) -> None:
        self._requests[start.request_id] = _Request(start, more=not self._spec.gated)
        self.step_began_s = time.monotonic()
        try:
            stage.open(start)
        except Exception as error:  # noqa: BLE001 - stage boundary: the request fails, not the worker
            self._fail([start.request_id], error)
        finally:
            self.step_began_s = 0.0

    def _release(self, lease: Lease) -> None:
        if self._writer is None:
            return
        with contextlib.suppress(StaleLease):  # from the life of a producer before this one
            self._writer.release(lease)
        for request_id, request in list(self._requests.items()):
            if request.outbox:
                self._flush(request_id, request)

    def _consume(self, feed: Feed) -> None:
        if isinstance(feed.payload, Lease):
            self._out.append(Consumed(feed.payload))

    # -- steps -----------------------------------------------------------------------------------

    def _ready(self) -> list[str]:
        return [
            request_id
            for request_id, request in self._requests.items()
            if (request.inputs or request.more)
            and not request.outbox
            and not request.closing
            and (request.lead_ms is not None or not self._spec.gated)
            and request.unacknowledged < self._spec.output_window
            and (self._writer is None or self._writer.has_credit(request_id))
        ]

    def _in_turn(self, ready: list[str]) -> list[str]:
        """Who steps before the socket is looked at again: all that are live, then one of the rest.

        So a job in the background keeps a conversation waiting for no more than one step. Of such
        jobs the youngest goes first: its client has had the least.
        """
        live = [one for one in ready if not self._requests[one].start.background]
        if len(live) == len(ready):
            return live
        background = (one for one in ready if self._requests[one].start.background)
        return [*live, min(background, key=lambda one: self._requests[one].steps)]

    def _step(self, stage: Stage, request_ids: list[str]) -> None:
        taken: list[tuple[str, list[Feed]]] = []
        batch: list[Work] = []
        taking_s = time.monotonic()
        for request_id in request_ids:
            request = self._requests[request_id]
            feeds = list(request.inputs)
            request.inputs.clear()
            request.more = False
            request.steps += 1
            taken.append((request_id, feeds))
            try:
                inputs = [
                    Input(feed.message, unpack(feed.payload, self._reader), feed.part, feed.parts)
                    for feed in feeds
                ]
            except StaleLease as error:
                self._fail([request_id], error)
                continue
            batch.append(Work(request_id, inputs, request.lead_ms))
        if any(feeds for _, feeds in taken):
            self._note("take", taking_s, requests=request_ids)
        outputs = self._compute(stage, batch)
        for output in outputs:
            self._emit(output)
        self._finish_reading()
        more = {work.request_id: work.more for work in batch}
        for request_id, feeds in taken:
            for feed in feeds:
                self._consume(feed)
            stepped = self._requests.get(request_id)
            if stepped is not None:
                stepped.lead_ms = None
                stepped.more |= more.get(request_id, False)
            if feeds or self._spec.gated:
                still_more = stepped is not None and stepped.more
                self._out.append(Stepped(request_id, len(feeds), still_more))

    def _compute(self, stage: Stage, batch: list[Work]) -> list[Output]:
        self.step_began_s = began_s = time.monotonic()
        request_ids = [work.request_id for work in batch]
        outputs: list[Output] = []
        try:
            outputs = stage.step(batch)
        except StageError as error:
            self._fail([error.request_id], error)
        except Exception as error:  # noqa: BLE001 - stage boundary: these requests fail, no others
            self._fail(request_ids, error)
        finally:
            self.step_began_s = 0.0
        if self._trace is not None:
            made = [(one.request_id, type(one.message).__name__) for one in outputs]
            self._trace.note("step", began_s, requests=request_ids, made=made)
        return outputs

    def _note(self, what: str, began_s: float, **more: Any) -> None:
        if self._trace is not None:
            self._trace.note(what, began_s, **more)

    def _fail(self, request_ids: list[str], error: Exception) -> None:
        code = error.code if isinstance(error, StageError) else f"{self._spec.name}_error"
        text = str(error) if isinstance(error, StageError) else f"{type(error).__name__}: {error}"
        for request_id in request_ids:
            self._emit(Output(request_id, Failed(code, text)))

    # -- output ----------------------------------------------------------------------------------

    def _emit(self, output: Output) -> None:
        request = self._requests.get(output.request_id)
        if request is None or request.closing:
            return
        arrays: Sequence[Array | None] = [None]
        try:
            if output.array is not None:
                arrays = self._parts_of(output.array)
        except ValueError as error:  # what one request cannot be sent is no reason for all to fail
            self._fail([output.request_id], error)
            return
        for part, array in enumerate(arrays):
            request.outbox.append(_Part(output.message, array, part, len(arrays)))
        if isinstance(output.message, End | Failed):
            request.closing = True
            assert self._stage is not None
            self._stage.close(output.request_id)
        self._flush(output.request_id, request)

    def _parts_of(self, array: Array) -> list[Array]:
        """As they fit the link. Raises ValueError if they cannot."""
        if not isinstance(self._writer, CudaPoolWriter):
            array = host_array(array)
        if self._writer is not None:
            return cut(array, self._writer.layout.slot_nbytes)
        return [array]

    def _flush(self, request_id: str, request: _Request) -> None:
        while request.outbox:
            part = request.outbox[0]
            payload: Inline | Lease | None = None
            if part.array is not None:
                small = part.array.nbytes <= INLINE_NBYTES and isinstance(part.array, np.ndarray)
                if small or self._writer is None:
                    payload = inline(part.array)
                elif self._writer.has_credit(request_id):
                    putting_s, nbytes = time.monotonic(), part.array.nbytes
                    payload = self._writer.write(request_id, part.array)
                    self._note("put", putting_s, request=request_id, nbytes=nbytes)
                else:
                    return
            request.outbox.popleft()
            request.unacknowledged += 1
            self._out.append(Emit(request_id, part.message, payload, part.part, part.parts))
        if request.closing:
            self._forget(request_id)

    def _drop(self, request_id: str) -> None:
        if self._requests.get(request_id) is None:
            return
        if self._stage is not None and not self._requests[request_id].closing:
            self._stage.close(request_id)
        self._forget(request_id)

    def _forget(self, request_id: str) -> None:
        request = self._requests.pop(request_id)
        for feed in request.inputs:
            self._consume(feed)
        if self._writer is not None:
            self._writer.orphan(request_id)


def build_runner(
    spec: WorkerSpec,
    control: ControlSocket,
    inbound: SharedMemory | None,
    outbound: SharedMemory | None,
) -> Runner:
    """Join a stage to its links."""
    reader = _open_reader(spec.inbound, inbound) if spec.inbound and inbound else None
    writer = _open_writer(spec, spec.outbound, outbound) if spec.outbound and outbound else None
    return Runner(spec, control, reader, writer)


def _open_writer(spec: WorkerSpec, port: PoolPort, memory: SharedMemory) -> PoolWriter:
    pool = (port.layout, memory, spec.epoch, spec.credits_per_request, spec.borrowed)
    if port.devices is not None:
        try:
            return CudaPoolWriter(*pool, CudaRuntime(), port.devices)
        except CudaError as error:
            log.warning("%s: its output goes through the host's memory: %s", spec.name, error)
    return PoolWriter(*pool)


def _open_reader(port: PoolPort, memory: SharedMemory) -> PoolReader:
    if port.devices is not None:
        with contextlib.suppress(CudaError):  # then the producer has none either, and says so
            return CudaPoolReader(port.layout, memory, CudaRuntime(), port.devices[1])
    return PoolReader(port.layout, memory)
