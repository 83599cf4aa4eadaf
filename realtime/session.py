"""A Realtime session without its socket: events, audio and results in, events and commands out.

It has no clock and waits for nothing. Whoever drives it hands in what arrives, in order, and after
each time sends `events_to_send` and runs `commands_to_run`. Nothing that a client sends makes it
raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from pipeline.messages import (
    Alignment,
    End,
    Failed,
    Speech,
    TextDelta,
    ToolCallDelta,
    TurnEnd,
)
from realtime import errors
from realtime.commands import Command, SetInputFormat
from realtime.conversation import Conversation
from realtime.errors import ClientError
from realtime.hearing import Hearing
from realtime.item_intake import encoding_in_words
from realtime.items import Items
from realtime.kept_audio import KeptAudio
from realtime.outgoing import Outgoing
from realtime.protocol import client, server
from realtime.protocol.config import (
    AnyFormat,
    EffectiveSession,
    SessionConfig,
    rate_of,
)
from realtime.protocol.transcription import EffectiveTranscriptionSession
from realtime.replies import Replies
from realtime.session_settings import SessionSettings
from realtime.session_update import updated
from realtime.transcription_session import (
    effective_transcription,
    no_responses,
    updated_transcription,
    wrong_kind,
)
from realtime.user_audio import UserAudio

__all__ = ["Session", "SessionSettings"]


class Session:
    """One client's conversation."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._out = Outgoing(settings.new_id)
        self._config = settings.config
        self._transcribes = settings.transcribes
        kept = KeptAudio(settings.max_item_audio_bytes, settings.max_kept_audio_bytes)
        self._conversation = Conversation(
            settings.new_id("conv"), kept, settings.max_heard_s, settings.sight
        )
        self._hearing = Hearing(
            self._out, settings.session_id, keeps_recordings=settings.max_heard_s > 0
        )
        self._replies = Replies(settings, self._out, self._conversation, self._hearing)
        self._items = Items(self._out, self._conversation, self._hearing, self._replies)
        self._audio = UserAudio(
            settings, self._out, self._conversation, self._hearing, self._replies
        )
        self._closed = False
        self._out.say(
            server.SessionCreated(event_id=self._out.event_id(), session=self.effective())
        )

    # -- for the driver --------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id."""
        return self._settings.session_id

    @property
    def config(self) -> SessionConfig:
        """The session as it is now."""
        return self._config

    @property
    def conversation(self) -> Conversation:
        """The items, to look at."""
        return self._conversation

    @property
    def input_format(self) -> AnyFormat:
        """How the client encodes its microphone."""
        return self._config.audio.input.format

    @property
    def listening(self) -> bool:
        """Whether turn detection is on, so that the ears are of use."""
        return self._audio.listening

    @property
    def dropped_samples(self) -> int:
        """Audio dropped since the session began because the buffer was full, at 16 kHz."""
        return self._audio.dropped_samples

    def effective(self) -> EffectiveSession | EffectiveTranscriptionSession:
        """The session as the client sees it."""
        if self._transcribes:
            expires_at = self._settings.expires_at
            return effective_transcription(self._config, self._settings.session_id, expires_at)
        fields = {name: getattr(self._config, name) for name in SessionConfig.model_fields}
        return EffectiveSession(
            **fields, id=self._settings.session_id, expires_at=self._settings.expires_at
        )

    def events_to_send(self) -> list[server.ServerEvent]:
        """Events since the last call, oldest first."""
        return self._out.take_events()

    def commands_to_run(self) -> list[Command]:
        """Commands since the last call, oldest first."""
        return self._out.take_commands()

    def close(self) -> None:
        """End all work. Safe to call twice; what arrives later is ignored."""
        if self._closed:
            return
        self._audio.close()
        self._replies.cancel_all()
        self._hearing.forget_all()
        self._closed = True

    # -- from the client -------------------------------------------------------------------------

    def receive_client(
        self, event: client.ClientEvent, sizes: Sequence[tuple[int, int]] = ()
    ) -> None:
        """Take any event but an append, whose audio comes decoded through `receive_audio`.

        sizes: height and width of the pictures in it, in order, which were found good; not needed
        if the Thinker sees nothing.
        """
        if self._closed:
            return
        try:
            self._handle(event, iter(sizes) if self._settings.sight.count else None)
        except ClientError as error:
            if error.event_id is None:
                error.event_id = event.event_id
            self.receive_error(error)

    def receive_error(self, error: ClientError) -> None:
        """Tell the client of a frame, or of audio, that could not be read."""
        if self._closed:
            return
        body = server.ErrorBody(
            type=error.type,
            code=error.code,
            message=error.message,
            param=error.param,
            event_id=error.event_id,
        )
        self._out.say(server.Error(event_id=self._out.event_id(), error=body))

    def invalid_audio(self, event_id: str | None) -> ClientError:
        """The error for an append that does not hold what the session's format promises."""
        return errors.invalid_audio(encoding_in_words(self.input_format), event_id=event_id)

    def _handle(  # noqa: C901 - one case per event
        self, event: client.ClientEvent, sizes: Iterator[tuple[int, int]] | None
    ) -> None:
        match event:
            case client.SessionUpdate():
                self._update(event)
            case client.InputAudioBufferCommit():
                self._audio.commit()
            case client.InputAudioBufferClear():
                self._audio.clear()
            case client.ConversationItemCreate():
                taken = event.item.id is not None and self._audio.announced(event.item.id)
                self._items.create(self._config, event, taken=taken, sizes=sizes)
            case client.ConversationItemRetrieve():
                self._items.retrieve(self._config, event)
            case client.ConversationItemDelete():
                self._items.delete(event)
            case client.ConversationItemTruncate():
                if self._items.truncate(event).in_progress:
                    self._audio.confirm_interruption()
            case client.ResponseCreate() | client.ResponseCancel() if self._transcribes:
                raise no_responses(event.type)
            case client.ResponseCreate():
                self._replies.create(self._config, event.response, sizes)
            case client.ResponseCancel():
                self._replies.cancel(event.response_id)
            case client.OutputAudioBufferClear():
                raise ClientError(
                    "invalid_value",
                    "'output_audio_buffer.clear' is only for connections whose audio the server "
                    "plays; on a WebSocket, stop playing and send 'conversation.item.truncate'.",
                    "type",
                )
            case client.InputAudioBufferAppend():
                raise TypeError("appended audio comes decoded, through receive_audio")
            case _:
                assert_never(event)

    def _update(self, event: client.SessionUpdate) -> None:
        before = self._config
        kind = event.session.get("type", "transcription" if self._transcribes else "realtime")
        transcribes = kind == "transcription"
        fresh = not (self._transcribes or any(self._conversation) or self._replies.any)
        if transcribes != self._transcribes and not fresh:
            raise wrong_kind(transcribes=self._transcribes)
        if transcribes:
            self._config = updated_transcription(
                before, event.session, transcribes=self._transcribes
            )
            self._transcribes = True
        else:
            self._config = updated(
                before,
                event.session,
                voice_locked=self._replies.voice_heard,
                lacks=self._settings.lacks,
            )
        if self.input_format != before.audio.input.format:
            self._out.ask(SetInputFormat(self.input_format.type, rate_of(self.input_format)))
        self._audio.reconfigure(self._config)
        self._out.say(
            server.SessionUpdated(event_id=self._out.event_id(), session=self.effective())
        )

    # -- the user's audio ------------------------------------------------------------------------

    def receive_audio(self, samples: NDArray[np.int16], event_id: str | None = None) -> bool:
        """More of the microphone, 16 kHz mono. Before what the ears say about it.

        False if it was refused: then the ears must not count it either.
        """
        if self._closed:
            return False
        try:
            self._audio.append(samples)
        except ClientError as error:
            error.event_id = event_id
            self.receive_error(error)
            return False
        return True

    def receive_speech(self, speech: Speech) -> None:
        """What the ears say of the next window."""
        if not self._closed:
            self._audio.hear(speech)

    # -- from the pipeline -----------------------------------------------------------------------

    def receive_transcript(self, request_id: str, message: TextDelta | End | Failed) -> None:
        """The next message of a Transcribe command."""
        if self._closed:
            return
        heard = self._hearing.receive(request_id, message)
        if heard is not None and not self._audio.take_words(heard):
            self._replies.words_are_in(heard)

    def receive_turn_end(self, request_id: str, message: TurnEnd | Failed) -> None:
        """The answer to a Judge command."""
        if not self._closed:
            self._audio.take_judgement(request_id, message)

    def receive_prepared(self, request_id: str) -> None:
        """A speculative reply has something to give, or has ended."""
        if not self._closed:
            self._replies.guess_is_prepared(request_id)
            self._audio.reply_is_prepared()

    def receive_reply(
        self,
        request_id: str,
        generation: int,
        message: TextDelta | ToolCallDelta | Alignment | End | Failed,
    ) -> None:
        """The next message of a StartReply command; audio comes through `receive_reply_audio`."""
        if not self._closed:
            self._replies.receive(request_id, generation, message)
            if isinstance(message, End):
                self._audio.reply_has_ended()

    def receive_reply_audio(
        self, request_id: str, generation: int, payloads: Iterable[bytes], samples: int
    ) -> None:
        """Audio in the response's format, one payload per delta; samples: in all, at 24 kHz."""
        if not self._closed:
            self._replies.receive_audio(request_id, generation, list(payloads), samples)

    @property
    def sounding_response(self) -> str | None:
        """The response whose playback is of interest: the last one that was spoken."""
        return self._replies.playback.response_id

    def receive_playback(self, request_id: str, samples: int) -> None:
        """How much of a reply has been played by now, at 24 kHz, also after its end.

        Told before the speech that may interrupt it.
        """
        self._replies.playback.note(request_id, samples)

    def receive_timings(self, request_id: str, timings_ms: dict[str, int]) -> None:
        """Shown in the reply's `response.done`, so told before its End or Failed."""
        if not self._closed:
            self._replies.receive_timings(request_id, timings_ms)
