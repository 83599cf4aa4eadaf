"""A client of the Realtime protocol that behaves like a microphone and a loudspeaker.

It appends in real time without pause, as a microphone does, and notes when everything arrives.
Benchmarks and end-to-end tests speak through it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from bench.clips import CLIP_RATE_HZ, Clip
from bench.turn import Received, Turn, read_turn
from bench.wire import PcmWire, Wire

APPEND_MS = 20
SETTLE_S = 0.6
"""How long after a clip the server may still find speech in it that it has not announced."""

Condition = Callable[[list[Received]], bool]


class Gone(Exception):
    """The server closed the connection. The message has the close code and reason."""


class Late(Exception):
    """What was waited for did not come in time. The message tells what had come."""


class RealtimeClient:
    """One connection. Use `open_client`, which gives it tasks to run in."""

    def __init__(self, connection: ClientConnection, wire: Wire, append_ms: int) -> None:
        self.wire = wire
        self.events: list[Received] = []
        self._connection = connection
        self._append_ms = wire.append_ms or append_ms
        self._append_samples = wire.send_rate_hz * self._append_ms // 1000
        self._speech: deque[NDArray[np.int16]] = deque()
        self._arrived = asyncio.Condition()
        self._closed: Gone | None = None
        # The microphone's clock: this many samples have been sent since it was switched on.
        self._on_at_s = 0.0
        self._sent_samples = 0

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self._read())
        self._microphone: asyncio.Task[None] | None = None
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        tasks = [self._reader] + ([self._microphone] if self._microphone else [])
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (failure := task.exception()) is not None:
                raise failure

    # -- events ----------------------------------------------------------------------------------

    async def send(self, event: Mapping[str, Any]) -> None:
        """Send one client event. Raises Gone."""
        await self.send_text(json.dumps(event))

    async def send_text(self, frame: str | bytes) -> None:
        """Send a frame as it is, sound or not. Raises Gone."""
        try:
            await self._connection.send(frame)
        except ConnectionClosed as error:
            raise _gone(error) from error

    async def wait_until(self, condition: Condition, deadline_s: float, what: str) -> None:
        """Wait until the events so far satisfy the condition. Raises Late or Gone."""
        try:
            async with asyncio.timeout(deadline_s), self._arrived:
                while not condition(self.events):
                    if self._closed is not None:
                        raise self._closed
                    await self._arrived.wait()
        except TimeoutError as error:
            seen = ", ".join(got.type for got in self.events[-12:])
            raise Late(f"no {what} within {deadline_s:g} s; last came: {seen}") from error

    async def wait_for(self, event_type: str, deadline_s: float = 20.0, since: int = 0) -> Received:
        """The first event of this type at or after index `since`. Raises Late or Gone."""

        def found(events: list[Received]) -> bool:
            return any(got.type == event_type for got in events[since:])

        await self.wait_until(found, deadline_s, event_type)
        return next(got for got in self.events[since:] if got.type == event_type)

    async def update_session(
        self, session: Mapping[str, Any], deadline_s: float = 10.0
    ) -> Received:
        """Change the session and wait for the echo. Raises Late, for instance if it is refused."""
        since = len(self.events)
        await self.send({"type": "session.update", "session": {"type": "realtime", **session}})
        return await self.wait_for("session.updated", deadline_s, since)

    async def close(self) -> None:
        """Leave at once, in the middle of whatever goes on."""
        await self._connection.close()

    async def _read(self) -> None:
        try:
            async for frame in self._connection:
                at_s = time.monotonic()
                event = json.loads(frame)
                samples = None
                if event.get("type") == "response.output_audio.delta":
                    samples = self.wire.decode(base64.b64decode(event["delta"], validate=True))
                async with self._arrived:
                    self.events.append(Received(at_s, event, samples))
                    self._arrived.notify_all()
            close = self._connection.protocol.close_exc
        except ConnectionClosed as error:
            close = error
        async with self._arrived:
            self._closed = _gone(close)
            self._arrived.notify_all()

    # -- the microphone --------------------------------------------------------------------------

    def switch_on(self) -> None:
        """Start to append, silence at first, and go on until the connection is left."""
        if self._microphone is None:
            self._on_at_s = time.monotonic()
            self._microphone = asyncio.create_task(self._append())

    def queue_speech(self, samples: NDArray[np.int16]) -> float:
        """Speak these samples (at the wire's rate) next; tells when the first is spoken."""
        waiting = sum(len(block) for block in self._speech)
        self._speech.append(samples)
        return self._on_at_s + (self._sent_samples + waiting) / self.wire.send_rate_hz

    async def _append(self) -> None:
        while True:
            # A microphone hands over a block when its last sample has been spoken.
            block_end = self._sent_samples + self._append_samples
            due_s = self._on_at_s + block_end / self.wire.send_rate_hz
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            payload = self.wire.encode(self._next_block())
            self._sent_samples = block_end
            audio = base64.b64encode(payload).decode()
            try:
                await self.send({"type": "input_audio_buffer.append", "audio": audio})
            except Gone:
                return  # the reader tells everyone who waits

    def _next_block(self) -> NDArray[np.int16]:
        block = np.zeros(self._append_samples, np.int16)
        filled = 0
        while self._speech and filled < len(block):
            speech = self._speech.popleft()
            take = min(len(speech), len(block) - filled)
            block[filled : filled + take] = speech[:take]
            filled += take
            if take < len(speech):
                self._speech.appendleft(speech[take:])
        return block

    # -- turns -----------------------------------------------------------------------------------

    async def speak(
        self,
        clip: Clip,
        *,
        deadline_s: float = 60.0,
        until_played: bool = True,
        transcription: bool = False,
    ) -> Turn:
        """Say a clip, wait for the whole reply, and (as people do) until it has been played.

        deadline_s counts from the end of the clip. transcription: wait for the transcript of every
        committed item as well. Never raises for what the server does: a turn that went wrong tells
        so in `failure`.
        """
        self.switch_on()
        since = len(self.events)
        said_at_s = self.queue_speech(self.wire.from_clip(clip.samples))
        asked_at_s = said_at_s + clip.speech_end_ms / 1000
        ended_at_s = said_at_s + len(clip.samples) / CLIP_RATE_HZ + SETTLE_S
        failure = None
        try:
            await asyncio.sleep(max(0.0, ended_at_s - time.monotonic()))
            await self.wait_until(
                lambda events: _is_answered(events[since:], transcription), deadline_s, "reply"
            )
        except (Late, Gone) as error:
            failure = str(error)
        turn = read_turn(clip.name, asked_at_s, self.events[since:], self.wire.receive_rate_hz)
        turn.failure = failure
        if until_played and failure is None:
            await self._listen_to_the_end(turn)
        return turn

    async def ask(
        self,
        text: str,
        *,
        response: Mapping[str, Any] | None = None,
        deadline_s: float = 60.0,
        until: Condition | None = None,
    ) -> Turn:
        """A text turn: add the user's message, ask for a response, wait for all of it.

        until: wait for this instead, of the turn's events.
        """
        since = len(self.events)
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        failure = None
        asked_at_s = time.monotonic()
        try:
            await self.send({"type": "conversation.item.create", "item": item})
            await self.wait_for("conversation.item.done", deadline_s, since)
            asked_at_s = time.monotonic()
            create = {"type": "response.create"} | ({"response": response} if response else {})
            await self.send(create)
            enough = until or _is_done
            await self.wait_until(lambda events: enough(events[since:]), deadline_s, "reply")
        except (Late, Gone) as error:
            failure = str(error)
        turn = read_turn(text, asked_at_s, self.events[since:], self.wire.receive_rate_hz)
        turn.failure = failure
        return turn

    async def _listen_to_the_end(self, turn: Turn) -> None:
        ends = [reply.played_at_s for reply in turn.replies]
        last_s = max((end for end in ends if end is not None), default=0.0)
        await asyncio.sleep(max(0.0, last_s - time.monotonic()))


def _is_done(events: list[Received]) -> bool:
    return any(got.type == "response.done" for got in events)


def _is_answered(events: list[Received], transcription: bool) -> bool:
    """The user has been heard, and every committed item has been answered and transcribed."""
    speaking = False
    committed: list[str] = []
    unanswered = False
    running: set[str] = set()
    transcribed: set[str] = set()
    for got in events:
        match got.type:
            case "input_audio_buffer.speech_started":
                speaking = True
            case "input_audio_buffer.speech_stopped":
                speaking = False
            case "input_audio_buffer.committed":
                committed.append(got.event["item_id"])
                unanswered = True
            case "response.created":
                running.add(got.event["response"]["id"])
                unanswered = False
            case "response.done":
                running.discard(got.event["response"]["id"])
            case (
                "conversation.item.input_audio_transcription.completed"
                | "conversation.item.input_audio_transcription.failed"
            ):
                transcribed.add(got.event["item_id"])
    if transcription and not transcribed.issuperset(committed):
        return False
    return bool(committed) and not (speaking or unanswered or running)


def _gone(error: BaseException | None) -> Gone:
    close = error.rcvd if isinstance(error, ConnectionClosed) else None
    if close is None:
        return Gone("the connection broke without a close frame")
    return Gone(f"the server closed the connection: {close.code} {close.reason}".rstrip())


@asynccontextmanager
async def open_client(
    url: str,
    wire: Wire | None = None,
    *,
    append_ms: int = APPEND_MS,
    session: Mapping[str, Any] | None = None,
    api_key: str | None = None,
    transcription: bool = False,
) -> AsyncIterator[RealtimeClient]:
    """Connect, wait for `session.created`, set the wire's formats and `session`.

    url: `ws://…/v1/realtime`. Raises OSError, Late or Gone.
    """
    wire = wire or PcmWire()
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else None
    async with (
        connect(url, additional_headers=headers, max_size=None, compression=None) as connection,
        RealtimeClient(connection, wire, append_ms) as client,
    ):
        await client.wait_for("session.created")
        await client.update_session(_merge(_formats(wire, transcription), session or {}))
        yield client


def _formats(wire: Wire, transcription: bool) -> dict[str, Any]:
    sound = {"format": wire.session_format()}
    heard = sound | ({"transcription": {"model": "whisper-1"}} if transcription else {})
    return {"audio": {"input": heard, "output": sound}}


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(old, value) if both else value  # type: ignore[arg-type]  # both are
    return merged
