"""One request's line to one stage: feed inputs, receive outputs, permit steps."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from pipeline.control import Close, Credit, Emit, Feed, Open, Permit, Stepped
from pipeline.errors import StageFailed
from pipeline.links import Link
from pipeline.messages import End, Failed, StageMessage, Start
from pipeline.pool import Payload

INPUT_WINDOW = 8
"""Inputs a stage may have before it has taken the first: more would only be memory."""

OUTPUT_WINDOW = 64
"""Outputs a request may have on the server's side before its stage is not stepped any more."""

CREDIT_EVERY = 16


class Sender(Protocol):
    """What a port needs of its worker."""

    inbound: Link | None
    outbound: Link | None

    def send(self, message: object) -> None:
        """Queue a control message."""

    def forget(self, request_id: str) -> None:
        """The port is closed."""


class Port:
    """Bounded both ways: `feed` waits for the stage to take, the stage waits for `receive`.

    The stage hears of the request with its first input, or by `begin`: until then there is nothing
    to wake its process for. start: until then.
    """

    def __init__(self, worker: Sender, start: Start) -> None:
        self.request_id = start.request_id
        self._start: Start | None = start
        self._worker = worker
        self._outputs: deque[Emit] = deque()
        self._failure: StageFailed | None = None
        self._changed = asyncio.Event()
        self._stepped: asyncio.Future[bool] | None = None
        self._unconsumed = 0
        self._taken = 0
        self._ended = False
        self._closed = False

    def begin(self) -> None:
        """Open the request at a stage that needs no input."""
        if self._start is not None:
            self._worker.send(Open(self._start))
            self._start = None

    async def feed(
        self, message: StageMessage, payload: Payload | None = None, part: int = 0, parts: int = 1
    ) -> None:
        """Hand over an input; the port owns its lease from the call on."""
        try:
            while self._unconsumed >= INPUT_WINDOW:
                await self._change()
            self._check()
        except BaseException:
            if self._worker.inbound is not None:
                self._worker.inbound.release(payload)
            raise
        self.push(message, payload, part, parts)

    def push(
        self, message: StageMessage, payload: Payload | None = None, part: int = 0, parts: int = 1
    ) -> None:
        """Hand over an input without waiting, for what is bounded elsewhere."""
        self.begin()
        self._unconsumed += 1
        if self._worker.inbound is not None:
            self._worker.inbound.hold(payload, holder="consumer")
        self._worker.send(Feed(self.request_id, message, payload, part, parts))

    @property
    def unconsumed(self) -> int:
        """Inputs that the stage has not taken yet."""
        return self._unconsumed

    async def receive(self) -> Emit:
        """The next output; the caller owns its lease. Raises StageFailed if no more come."""
        while not self._outputs:
            self._check()
            await self._change()
        emitted = self._outputs.popleft()
        self._taken += 1
        if self._taken == CREDIT_EVERY:
            self._taken = 0
            self._worker.send(Credit(self.request_id, CREDIT_EVERY))
        if isinstance(emitted.message, Failed):
            raise StageFailed(emitted.message.code, emitted.message.message)
        return emitted

    async def step(self, lead_ms: float) -> bool:
        """Let a gated stage do one step; returns whether it has more to do."""
        self._check()
        self._stepped = asyncio.get_running_loop().create_future()
        self._worker.send(Permit(self.request_id, lead_ms))
        try:
            return await self._stepped
        finally:
            self._stepped = None

    def close(self) -> None:
        """End the request at this stage and give back what is queued. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._start is None and not self._ended:
            self._worker.send(Close(self.request_id))
        self._worker.forget(self.request_id)
        self._drop_outputs()

    # -- called by the worker --------------------------------------------------------------------

    def receive_emit(self, emitted: Emit) -> None:
        """An output has come."""
        self._outputs.append(emitted)
        self._ended |= isinstance(emitted.message, End | Failed)
        self._notify()
        if isinstance(emitted.message, Failed) and self._stepped and not self._stepped.done():
            self._stepped.set_result(False)

    def receive_stepped(self, stepped: Stepped) -> None:
        """A step is over."""
        self._unconsumed -= stepped.consumed
        if self._stepped is not None and not self._stepped.done():
            self._stepped.set_result(stepped.more)
        self._notify()

    def fail(self, failure: StageFailed) -> None:
        """The worker is gone: what is queued is void."""
        self._failure = failure
        self._drop_outputs()
        if self._stepped is not None and not self._stepped.done():
            self._stepped.set_exception(failure)
        self._notify()

    # --------------------------------------------------------------------------------------------

    def _drop_outputs(self) -> None:
        while self._outputs:
            if self._worker.outbound is not None:
                self._worker.outbound.release(self._outputs.popleft().payload)
            else:
                self._outputs.popleft()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _notify(self) -> None:
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
        self._check()
