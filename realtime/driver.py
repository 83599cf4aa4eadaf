"""Where a Session meets the world: codecs, ears and engine.

The Session only decides. Here its commands are run, what comes back is handed to it, and the events
it answers with go to the socket. Every fault of a request becomes a `Failed` in one place, so that
the Session ends each response exactly once.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from audio.codecs import CodecError
from audio.formats import AudioFormat
from audio.libopus import OpusUnavailable
from pipeline.abilities import Ability
from pipeline.messages import (
    Alignment,
    End,
    Failed,
    PipelineMessage,
    Speech,
    Start,
    TextDelta,
    ToolCallDelta,
    TurnEnd,
)
from realtime.commands import (
    Abort,
    Command,
    Judge,
    Pause,
    Release,
    ResetEars,
    Resume,
    SetInputFormat,
    StartReply,
    Transcribe,
)
from realtime.config import Config
from realtime.ears import Ears
from realtime.errors import ClientError
from realtime.opening import Opening
from realtime.pacing import Clock
from realtime.picture_limits import PictureLimits
from realtime.protocol import InputAudioBufferAppend, ServerEvent
from realtime.protocol.client import ClientEvent, ResponseCancel
from realtime.protocol.config import Audio, AudioOutput, SessionConfig, rate_of
from realtime.protocol.dialect import Dialect
from realtime.protocol.server import Committed, Error, RateLimitsUpdated, ResponseDone
from realtime.reply import Reply
from realtime.service import Service
from realtime.session import Session, SessionSettings
from realtime.session_update import updated
from realtime.sight import Size, check_images, images_in
from realtime.transcoding import MicrophoneDecoder, ReplyEncoder
from realtime.transcription_session import updated_transcription, without_answers

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

OFF_LOOP_CHARS = 256 * 1024
"""Frames longer than this are parsed and decoded in a thread."""

VOICED = 0.5
"""Probability from which a window counts as voice in the timing record."""


class Driver:
    """Runs one session. `tasks` is its connection's group, which ends all of them with it."""

    def __init__(
        self,
        service: Service,
        tasks: asyncio.TaskGroup,
        send: Callable[[str], None],
        *,
        opening: Opening | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._service = service
        self._config = service.config
        self._engine = service.engine
        self._tasks = tasks
        self._send = send
        self._clock = clock
        self._running: dict[str, asyncio.Task[None]] = {}
        self._replies: dict[str, Reply] = {}  # those that run, and those still to be heard
        self.quiet = asyncio.Event()  # nothing that the session has asked for is running
        self.quiet.set()
        opening = opening or Opening()
        self._dialect = Dialect(in_beta=opening.in_beta)
        engine = service.engine
        settings = new_settings(
            service.config, opening, hears=engine.hears, sees=engine.sees, lacks=engine.lacks
        )
        self._sight = settings.sight
        self._session = Session(settings)
        heard = self._session.input_format
        self._input_format = AudioFormat(heard.type, rate_of(heard))
        self._microphone: MicrophoneDecoder | None = None  # made with the first append
        self._turn_s: dict[str, float] = {}  # points of the user's turn, for the timing record
        self._ears = Ears(self._engine, self._session.id, self._hear)
        self._flush()

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop everything this session has asked for."""
        self._session.close()
        self._ears.close()
        for request_id in list(self._running):
            self._abort(request_id)

    # -- from the client -------------------------------------------------------------------------

    async def receive(self, text: str) -> None:
        """Take one frame. Whatever is wrong with it is answered, and changes nothing."""
        try:
            event = await _off_loop_if_long(text, lambda: self._dialect.parse(text))
            if isinstance(event, InputAudioBufferAppend):
                await self._append(event)
            else:
                if isinstance(event, ResponseCancel):
                    self._tell_playback()
                self._session.receive_client(event, await self._look_at(event))
        except ClientError as error:
            self._session.receive_error(error)
        self._flush()

    async def _look_at(self, event: ClientEvent) -> tuple[Size, ...]:
        """The sizes of the pictures in an event. Raises ClientError."""
        if not self._sight.count or not any(images_in(event)):
            return ()
        return await asyncio.to_thread(check_images, event, self._sight)

    def refuse_binary(self) -> None:
        """Answer a binary frame."""
        message = "Binary frames are not part of this protocol; send JSON text frames."
        self._session.receive_error(ClientError("invalid_event", message))
        self._flush()

    async def _append(self, event: InputAudioBufferAppend) -> None:
        """Decode, then buffer and hear: the Session counts samples before the ears report them."""
        samples = await _off_loop_if_long(event.audio, lambda: self._decode(event))
        if not self._session.receive_audio(samples, event.event_id):
            return
        if self._session.listening:
            self._ears.feed(samples)
        else:
            self._ears.skip(len(samples))

    def _decode(self, event: InputAudioBufferAppend) -> NDArray[np.int16]:
        limit = self._config.max_append_bytes
        if len(event.audio) * 3 // 4 > limit + 2:
            message = f"Invalid 'audio'. An append holds at most {limit} bytes."
            raise ClientError("invalid_value", message, "audio", event.event_id)
        try:
            payload = base64.b64decode(event.audio, validate=True)
        except ValueError as error:
            raise self._session.invalid_audio(event.event_id) from error
        try:
            if self._microphone is None:
                self._microphone = MicrophoneDecoder(self._input_format)
            return self._microphone.decode(payload)
        except (CodecError, OpusUnavailable) as error:
            message = f"Invalid 'audio'. {error}"
            raise ClientError("invalid_value", message, "audio", event.event_id) from error

    # -- to the client ---------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send what the Session has to say and run what it wants done."""
        for event in self._session.events_to_send():
            self._note(event)
            self._tell(event)
            if isinstance(event, ResponseDone):
                self._tell(RateLimitsUpdated(event_id=new_id("event")))
        for command in self._session.commands_to_run():
            self._run(command)

    def _tell(self, event: ServerEvent) -> None:
        for frame in self._dialect.dump(event, self._session.conversation.id):
            self._send(frame)

    def _note(self, event: ServerEvent) -> None:
        match event:
            case Error(error=error):
                self._service.metrics.errors.labels(error.code or error.type).inc()
            case Committed():
                self._turn_s["turn_end"] = self._clock()
            case ResponseDone(response=response):
                self._service.metrics.responses.labels(response.status).inc()

    # -- commands --------------------------------------------------------------------------------

    def _run(self, command: Command) -> None:
        match command:
            case Transcribe(start=start):
                self._turn_s["guess"] = self._clock()
                self._spawn(start, partial(self._transcribe, command), self._take_transcript)
            case Judge(start=start):
                self._spawn(start, partial(self._judge, command), self._take_judgement)
            case StartReply():
                self._start_reply(command)
            case Release() | Pause() | Resume():
                self._steer(command)
            case Abort(request_id=request_id):
                self._abort(request_id)
            case ResetEars():
                self._ears.reset()
            case SetInputFormat(format=name, rate_hz=rate_hz):
                self._input_format, self._microphone = AudioFormat(name, rate_hz), None

    def _spawn(
        self,
        start: Start,
        work: Callable[[], Awaitable[None]],
        receive: Callable[[Start, PipelineMessage], None],
    ) -> None:
        request_id = start.request_id
        task = self._tasks.create_task(self._contain(start, work, receive), name=request_id)
        self._running[request_id] = task
        self.quiet.clear()
        task.add_done_callback(lambda _: self._end(request_id))

    def _end(self, request_id: str) -> None:
        self._running.pop(request_id, None)
        if not self._running:
            self.quiet.set()

    async def _contain(
        self,
        start: Start,
        work: Callable[[], Awaitable[None]],
        receive: Callable[[Start, PipelineMessage], None],
    ) -> None:
        """Run a request's work; whatever it raises is the request's failure and no one else's."""
        try:
            await work()
        except Exception:  # boundary of a request: one end for each, whatever went wrong
            logger.exception("request %s failed", start.request_id)
            receive(start, Failed("server_error", "The server had an error while replying."))

    def _steer(self, command: Release | Pause | Resume) -> None:
        reply = self._replies.get(command.request_id)
        if reply is None:
            return
        match command:
            case Release():
                points, self._turn_s = self._turn_s, {}
                reply.release(points)
            case Pause():
                reply.pause()
            case Resume():
                reply.resume()

    def _abort(self, request_id: str) -> None:
        self._engine.abort(request_id)
        if (task := self._running.pop(request_id, None)) is not None:
            task.cancel()

    # -- hearing ---------------------------------------------------------------------------------

    def _hear(self, speech: Speech) -> None:
        if speech.probability >= VOICED:
            self._turn_s = {"voice_end": self._clock()}
        try:
            self._tell_playback()
            self._session.receive_speech(speech)
            self._flush()
        except Exception as error:  # boundary: the engine's task must not end by our fault
            logger.exception("session %s cannot hear", self._session.id)
            self._tasks.create_task(_fail(error))

    def _tell_playback(self) -> None:
        """How far the listener is with the reply that speech, or the client, would interrupt."""
        sounding = self._session.sounding_response
        if sounding is not None and (reply := self._replies.get(sounding)) is not None:
            self._session.receive_playback(sounding, reply.played)

    async def _transcribe(self, command: Transcribe) -> None:
        decoder = MicrophoneDecoder(AudioFormat(command.format, command.rate_hz))
        try:
            samples = await _off_loop_if_long(command.pcm, lambda: decoder.decode(command.pcm))
        except CodecError as error:
            self._take_transcript(command.start, Failed("invalid_audio", str(error)))
            return
        async with aclosing(self._engine.submit(command.start, samples)) as messages:
            async for message in messages:
                self._take_transcript(command.start, message)

    def _take_transcript(self, start: Start, message: PipelineMessage) -> None:
        if isinstance(message, End):
            self._turn_s["transcript"] = self._clock()
        if isinstance(message, TextDelta | End | Failed):
            self._session.receive_transcript(start.request_id, message)
            self._flush()

    async def _judge(self, command: Judge) -> None:
        samples = np.frombuffer(command.pcm, "<i2")
        async with aclosing(self._engine.submit(command.start, samples)) as messages:
            async for message in messages:
                self._take_judgement(command.start, message)

    def _take_judgement(self, start: Start, message: PipelineMessage) -> None:
        if isinstance(message, TurnEnd | Failed):
            self._session.receive_turn_end(start.request_id, message)
            self._flush()

    # -- replying --------------------------------------------------------------------------------

    def _start_reply(self, command: StartReply) -> None:
        now_s = self._clock()
        points = dict(self._turn_s)
        kept = {self._session.sounding_response, *self._running}
        self._replies = {key: reply for key, reply in self._replies.items() if key in kept}
        reply = Reply(
            self._engine,
            command.start,
            partial(ReplyEncoder, AudioFormat(command.format, command.rate_hz)),
            self,
            lead_ms=self._config.pacing_lead_ms,
            clock=self._clock,
            zero_s=min(points.values(), default=now_s),
            points={**points, "reply_start": now_s},
            recordings=command.recordings,
            pictures=command.pictures,
            on_underrun=self._service.metrics.underruns.inc,
        )
        if not command.start.speculative:
            self._turn_s = {}
        self._replies[command.start.request_id] = reply
        self._spawn(command.start, reply.run, self.receive_message)

    def receive_message(self, start: Start, message: PipelineMessage) -> None:
        """A reply's text, calls and alignment, and last its End or Failed."""
        if isinstance(message, TextDelta | ToolCallDelta | Alignment | End | Failed):
            self._session.receive_reply(start.request_id, start.generation, message)
            self._flush()

    def receive_audio(self, start: Start, payload: bytes, samples: int) -> None:
        """A payload of a reply that is due now, and how many 24 kHz samples it holds."""
        self._session.receive_reply_audio(start.request_id, start.generation, [payload], samples)
        self._flush()

    def receive_prepared(self, start: Start) -> None:
        """A speculative reply could be heard now."""
        self._session.receive_prepared(start.request_id)
        self._flush()

    def receive_timings(self, start: Start, timings_ms: Mapping[str, int]) -> None:
        """A reply's timing record, just before its end."""
        if "first_audio_sent" in timings_ms:
            self._service.metrics.first_audio.observe(timings_ms["first_audio_sent"] / 1000)
        self._session.receive_timings(start.request_id, dict(timings_ms))
        logger.info("reply %s: %s", start.request_id, dict(timings_ms))


def new_settings(
    config: Config,
    opening: Opening,
    *,
    hears: bool = False,
    sees: bool = False,
    lacks: frozenset[Ability] = frozenset(),
) -> SessionSettings:
    """A fresh session under this configuration, opened like this. Raises ClientError.

    hears, sees: the Thinker does. lacks: what the models cannot do.
    """
    session = SessionConfig(
        model=opening.model or config.model,
        instructions=config.instructions,
        audio=Audio(output=AudioOutput(voice=config.voice)),
    )
    if opening.transcribes:
        session = without_answers(session)
    if opening.session is not None and opening.transcribes:
        session = updated_transcription(session, opening.session, transcribes=True)
    elif opening.session is not None:
        session = updated(session, opening.session, voice_locked=False, lacks=lacks)
    return SessionSettings(
        session_id=new_id("sess"),
        new_id=new_id,
        config=session,
        expires_at=int(time.time() + config.max_session_s),
        backchannels=config.backchannels,
        max_buffer_s=config.max_buffer_s,
        max_item_audio_bytes=config.max_item_audio_bytes,
        max_kept_audio_bytes=config.max_kept_audio_bytes,
        transcribes=opening.transcribes,
        refuse_overflow=True,
        max_heard_s=config.max_heard_s if hears else 0.0,
        sight=_sight(config) if sees else PictureLimits(),
        max_turn_s=config.max_turn_s,
        lacks=lacks,
    )


def _sight(config: Config) -> PictureLimits:
    return PictureLimits(
        count=config.max_seen_images,
        pixels=config.max_prompt_pixels,
        nbytes=config.max_kept_image_bytes,
        pixels_of_one=config.max_image_pixels,
        shown_nbytes=config.max_item_image_bytes,
    )


def new_id(prefix: str) -> str:
    """An id nobody can guess, short enough for clients that cut them at 32 characters."""
    return f"{prefix}_{secrets.token_hex(10)}"


async def _fail(error: Exception) -> None:
    raise error


async def _off_loop_if_long(text: str | bytes, work: Callable[[], Result]) -> Result:
    return await asyncio.to_thread(work) if len(text) > OFF_LOOP_CHARS else work()
