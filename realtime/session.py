"""A Realtime session without its socket: events, audio and results in, events and commands out.

It has no clock and waits for nothing. Whoever drives it hands in what arrives, in order, and after
each time sends `events_to_send` and runs `commands_to_run`. Nothing that a client sends makes it
raise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from audio import endpointer
from audio.formats import ms_to_samples, samples_to_ms
from pipeline.messages import (
    INPUT_RATE_HZ,
    Alignment,
    End,
    Failed,
    Plan,
    Speech,
    Start,
    TextDelta,
    ToolCallDelta,
    TurnEnd,
)
from realtime import errors, interruption
from realtime.commands import Abort, Command, Judge, ResetEars, SetInputFormat
from realtime.conversation import Conversation, Entry
from realtime.errors import ClientError
from realtime.hearing import Hearing
from realtime.idle import IdleTimer
from realtime.input_buffer import InputBuffer
from realtime.item_intake import encoding_in_words, take_in
from realtime.kept_audio import AS_HEARD, KeptAudio
from realtime.open_turn import OpenTurn
from realtime.outgoing import Outgoing
from realtime.protocol import client, server
from realtime.protocol.config import (
    AnyFormat,
    EffectiveSession,
    SemanticVad,
    ServerVad,
    SessionConfig,
    rate_of,
)
from realtime.protocol.items import AssistantMessage, InputAudio, UserMessage
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
from realtime.turn_end import Evidence, turn_has_ended
from realtime.turns import Turns

__all__ = ["Session", "SessionSettings"]

MIN_COMMIT_SAMPLES = ms_to_samples(100, INPUT_RATE_HZ)
JUDGED_SAMPLES = ms_to_samples(8_000, INPUT_RATE_HZ)
"""All that the turn detector looks at."""


class Session:
    """One client's conversation."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._out = Outgoing(settings.new_id)
        self._config = settings.config
        self._transcribes = settings.transcribes
        kept = KeptAudio(settings.max_item_audio_bytes, settings.max_kept_audio_bytes)
        self._conversation = Conversation(settings.new_id("conv"), kept)
        self._buffer = InputBuffer(max(int(settings.max_buffer_s * INPUT_RATE_HZ), 1))
        self._hearing = Hearing(self._out, settings.session_id)
        self._replies = Replies(settings, self._out, self._conversation, self._hearing)
        self._turns: Turns | None = None
        self._idle = IdleTimer()
        self._turn: OpenTurn | None = None  # announced by speech_started, not yet committed
        self._closed = False
        self._follow_turn_detection()
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
        return self._turns is not None

    @property
    def dropped_samples(self) -> int:
        """Audio dropped since the session began because the buffer was full, at 16 kHz."""
        return self._buffer.dropped

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
        self._drop_guess()
        self._replies.cancel_all()
        self._hearing.forget_all()
        self._buffer.clear()
        self._closed = True

    # -- from the client -------------------------------------------------------------------------

    def receive_client(self, event: client.ClientEvent) -> None:
        """Take any event but an append, whose audio comes decoded through `receive_audio`."""
        if self._closed:
            return
        try:
            self._handle(event)
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

    def _handle(self, event: client.ClientEvent) -> None:  # noqa: C901 - one case per event
        match event:
            case client.SessionUpdate():
                self._update(event)
            case client.InputAudioBufferCommit():
                self._commit_by_client()
            case client.InputAudioBufferClear():
                self._clear_buffer()
            case client.ConversationItemCreate():
                self._create_item(event)
            case client.ConversationItemRetrieve():
                entry = self._require("retrieve", event.item_id)
                item = self._conversation.shown(entry, self.input_format)
                self._out.say(server.ItemRetrieved(event_id=self._out.event_id(), item=item))
            case client.ConversationItemDelete():
                self._delete_item(event)
            case client.ConversationItemTruncate():
                self._truncate_item(event)
            case client.ResponseCreate() | client.ResponseCancel() if self._transcribes:
                raise no_responses(event.type)
            case client.ResponseCreate():
                self._replies.create(self._config, event.response)
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
        if transcribes != self._transcribes and (self._transcribes or any(self._conversation)):
            raise wrong_kind(transcribes=self._transcribes)
        if transcribes:
            self._config = updated_transcription(
                before, event.session, transcribes=self._transcribes
            )
            self._transcribes = True
        else:
            self._config = updated(before, event.session, voice_locked=self._replies.voice_heard)
        if self.input_format != before.audio.input.format:
            self._out.ask(SetInputFormat(self.input_format.type, rate_of(self.input_format)))
        if self._config.audio.input.turn_detection != before.audio.input.turn_detection:
            self._follow_turn_detection()
        self._out.say(
            server.SessionUpdated(event_id=self._out.event_id(), session=self.effective())
        )

    def _follow_turn_detection(self) -> None:
        detection = self._config.audio.input.turn_detection
        if detection is None:
            # What was heard so far stays, for the client to commit.
            self._turns = None
            self._drop_guess()
            if self._turn is not None:
                self._turn.doubted = False
            self._replies.user_is_speaking = False
            self._replies.resume()
            self._replies.release_held()
        elif self._turns is not None:
            self._turns.reconfigure(detection)
        else:
            self._turns = Turns(detection)
            self._turns.reset(self._buffer.end)
            self._out.ask(ResetEars())

    # -- the user's audio ------------------------------------------------------------------------

    def receive_audio(self, samples: NDArray[np.int16], event_id: str | None = None) -> bool:
        """More of the microphone, 16 kHz mono. Before what the ears say about it.

        False if it was refused: then the ears must not count it either.
        """
        if self._closed:
            return False
        room = self._buffer.max_samples - len(self._buffer)
        if self._settings.refuse_overflow and len(samples) > room:
            error = errors.buffer_full(self._buffer.max_samples)
            error.event_id = event_id
            self.receive_error(error)
            return False
        self._buffer.append(samples)
        return True

    def receive_speech(self, speech: Speech) -> None:
        """What the ears say of the next window."""
        if self._closed or self._turns is None:
            return
        heard_until = min(speech.end_sample, self._buffer.end)
        match self._turns.hear(replace(speech, end_sample=heard_until)):
            case endpointer.SpeechStarted(audio_start_sample=start):
                self._start_turn(start)
            case endpointer.SpeechStopped(audio_end_sample=end):
                self._stop_turn(end)
            case None if self._turn is not None:
                self._follow_turn(self._turn, heard_until)
            case None:
                self._follow_silence(self._turns, heard_until)
        self._buffer.forget(self._turns.needed_from)

    def _follow_silence(self, turns: Turns, heard_until: int) -> None:
        """Between turns: when it lasts too long, it is answered too."""
        limit = None
        if isinstance(turns.detection, ServerVad) and turns.detection.idle_timeout_ms is not None:
            limit = ms_to_samples(turns.detection.idle_timeout_ms, INPUT_RATE_HZ)
        began = self._idle.hear(heard_until, busy=self._replies.busy, limit=limit)
        if began is None:
            return
        start = max(began, self._buffer.start)
        turn = self._turn = OpenTurn(self._out.new_id("item"), start)
        self._out.say(
            server.TimeoutTriggered(
                event_id=self._out.event_id(),
                audio_start_ms=samples_to_ms(began, INPUT_RATE_HZ),
                audio_end_ms=samples_to_ms(heard_until, INPUT_RATE_HZ),
                item_id=turn.item_id,
            )
        )
        self._commit(self._buffer.take(start, heard_until))
        self._replies.create(self._config, None)

    def _follow_turn(self, turn: OpenTurn, heard_until: int) -> None:
        """In a pause, work on the guess that the turn is over; when it goes on, drop it."""
        assert self._turns is not None
        if self._turns.speaking:
            turn.may_guess = True
            self._drop_guess()
            if turn.doubted and self._turns.speech_ms >= self._confirm_ms:
                self._confirm(turn)
        elif turn.may_guess and self._turns.paused:
            turn.may_guess = False
            pcm = self._buffer.peek(turn.start_sample, heard_until)
            turn.guess = self._user_item(turn.item_id)
            self._transcribe(turn.guess, pcm, turn.over, withheld=True)
        self._end_turn_if_over()

    def _end_turn_if_over(self) -> None:
        """Under `semantic_vad`: weigh what is known of the pause."""
        turn, turns = self._turn, self._turns
        if turn is None or turns is None or not turns.silence_ms:
            return
        if not isinstance(turns.detection, SemanticVad):
            return
        if turn.judgement_is_due(turns.silence_ms):
            self._judge(turn)
        evidence = Evidence(
            turns.silence_ms,
            text=turn.text,
            stop_prob=turn.stop_prob,
            sound=turn.sound,
            pending=turn.may_guess
            or (turn.guess is not None and turn.guess.pending)
            or (turn.judging is not None and turn.sound is None),
            prepared=not self._replies.preparing,
        )
        if turn_has_ended(turns.detection.eagerness, evidence):
            self._stop_turn(turns.end())

    def _judge(self, turn: OpenTurn) -> None:
        """Ask whether the open turn sounds finished."""
        turn.judgements += 1
        turn.judging = self._out.new_id("judge")
        start = Start(turn.judging, Plan.JUDGE, session_id=self._settings.session_id)
        first = max(turn.start_sample, self._buffer.end - JUDGED_SAMPLES)
        self._out.ask(Judge(start, self._buffer.peek(first, self._buffer.end)))

    def _drop_guess(self) -> None:
        turn = self._turn
        if turn is None or turn.guess is None:
            return
        self._hearing.forget(turn.guess)
        self._replies.drop_guess()
        self._stop_judging(turn)
        turn.resume()

    def _stop_judging(self, turn: OpenTurn) -> None:
        if turn.judging is not None:
            self._out.ask(Abort(turn.judging))

    def _start_turn(self, start_sample: int) -> None:
        self._drop_guess()
        self._turn = OpenTurn(self._out.new_id("item"), start_sample)
        self._out.say(
            server.SpeechStarted(
                event_id=self._out.event_id(),
                audio_start_ms=samples_to_ms(start_sample, INPUT_RATE_HZ),
                item_id=self._turn.item_id,
            )
        )
        detection = self._config.audio.input.turn_detection
        if detection is not None and detection.interrupt_response:
            self._turn.over = self._replies.speaking_text()
            self._replies.user_is_speaking = True
            if self._config.audio.output.keeps_buffer:
                self._turn.doubted = True
                self._replies.pause()
            else:
                self._replies.interrupt()

    # -- interruptions that may be none ----------------------------------------------------------

    @property
    def _confirm_ms(self) -> int:
        detection = self._config.audio.input.turn_detection
        asked = detection.interrupt_confirm_ms if detection is not None else None
        return interruption.CONFIRM_MS if asked is None else asked

    def _confirm(self, turn: OpenTurn) -> None:
        """It is an interruption: the reply that was paused is over."""
        turn.doubted = False
        self._replies.interrupt()

    def _dismiss_turn(self, turn: OpenTurn) -> None:
        """It was no turn: no item, and the reply goes on."""
        assert self._turns is not None
        end_ms = samples_to_ms(self._turns.end(), INPUT_RATE_HZ)
        event_id = self._out.event_id
        self._out.say(
            server.SpeechStopped(event_id=event_id(), audio_end_ms=end_ms, item_id=turn.item_id)
        )
        self._out.say(server.SpeechDismissed(event_id=event_id(), item_id=turn.item_id))
        self._drop_guess()
        self._turn = None
        self._replies.user_is_speaking = False
        self._replies.resume()
        self._replies.release_held()

    def _settle_doubt(self, turn: OpenTurn) -> bool:
        """With the words there is no doubt any more. False if the turn was none."""
        if not turn.doubted:
            return True
        # Said to a question that is over, "mhm" is an answer.
        passing = self._replies.paused and interruption.is_backchannel(turn.text or "")
        if turn.text and not passing:
            self._confirm(turn)
            return True
        self._dismiss_turn(turn)
        return False

    # --------------------------------------------------------------------------------------------

    def _stop_turn(self, end_sample: int) -> None:
        turn = self._turn
        assert turn is not None, "what stops has started"
        self._out.say(
            server.SpeechStopped(
                event_id=self._out.event_id(),
                audio_end_ms=samples_to_ms(end_sample, INPUT_RATE_HZ),
                item_id=turn.item_id,
            )
        )
        entry = self._commit(self._buffer.take(turn.start_sample, end_sample))
        detection = self._config.audio.input.turn_detection
        if detection is not None and detection.create_response:
            self._replies.hold_for(self._config, entry, turn.revisions)
        self._replies.user_is_speaking = False
        self._replies.release_held()

    def _commit_by_client(self) -> None:
        if len(self._buffer) < MIN_COMMIT_SAMPLES:
            raise errors.commit_too_short(len(self._buffer))
        start = self._buffer.start
        if self._turns is not None and (turn := self._turns.start_sample) is not None:
            start = turn
        self._commit(self._buffer.take(start, self._buffer.end))
        self._leave_turn()

    def _commit(self, pcm: bytes) -> Entry:
        """Make the user's item of this audio, and have it transcribed."""
        out = self._out
        turn, self._turn = self._turn, None
        if turn is not None:
            self._stop_judging(turn)
            if turn.doubted:
                self._confirm(turn)
        guess = turn.guess if turn is not None else None
        entry = guess or self._user_item(turn.item_id if turn is not None else out.new_id("item"))
        previous_id = self._conversation.last_id
        self._conversation.insert(entry)
        self._conversation.audio.keep(entry.id, 0, AS_HEARD, [pcm])
        out.say(
            server.Committed(
                event_id=out.event_id(), item_id=entry.id, previous_item_id=previous_id
            )
        )
        self._say_added(entry)
        if guess is None:
            self._transcribe(entry, pcm, turn.over if turn is not None else "")
        else:
            self._hearing.reveal(entry)
        return entry

    def _user_item(self, item_id: str) -> Entry:
        return Entry(UserMessage(id=item_id, status="completed", content=(InputAudio(),)))

    def _transcribe(
        self, entry: Entry, pcm: bytes, over: str = "", *, withheld: bool = False
    ) -> None:
        seconds = len(pcm) / 2 / INPUT_RATE_HZ
        wish = self._config.audio.input.transcription
        logprobs = bool(self._config.include)
        self._hearing.begin(
            entry, 0, pcm, seconds, wish, withheld=withheld, over=over, logprobs=logprobs
        )

    def _clear_buffer(self) -> None:
        self._buffer.clear()
        self._out.say(server.Cleared(event_id=self._out.event_id()))
        self._out.ask(ResetEars())
        self._leave_turn()

    def _leave_turn(self) -> None:
        """The audio of an open turn is gone: no `speech_stopped` will follow."""
        self._drop_guess()
        self._replies.drop_guess()
        self._replies.resume()
        self._turn = None
        if self._turns is not None:
            self._turns.reset(self._buffer.end)
        self._replies.user_is_speaking = False
        self._replies.release_held()

    # -- items -----------------------------------------------------------------------------------

    def _create_item(self, event: client.ConversationItemCreate) -> None:
        conversation = self._conversation
        wanted_id = event.item.id
        if wanted_id is not None and (wanted_id in conversation or self._announced(wanted_id)):
            raise errors.duplicate_item(wanted_id)
        place = conversation.place_after(event.previous_item_id)
        entry, audio = take_in(
            event.item, "item", self.input_format, self._out.new_id, conversation.has_call
        )
        conversation.insert(entry, place)
        self._say_added(entry)
        for part in audio:
            conversation.audio.keep(entry.id, part.content_index, self.input_format, [part.data])
            self._hearing.begin(
                entry,
                part.content_index,
                part.data,
                part.seconds,
                self._config.audio.input.transcription,
                self.input_format,
                logprobs=bool(self._config.include),
            )

    def _announced(self, item_id: str) -> bool:
        return self._turn is not None and self._turn.item_id == item_id

    def _say_added(self, entry: Entry) -> None:
        previous_id = self._conversation.previous_id(entry.id)
        for event in (server.ItemAdded, server.ItemDone):
            self._out.say(
                event(event_id=self._out.event_id(), previous_item_id=previous_id, item=entry.item)
            )

    def _require(self, verb: str, item_id: str) -> Entry:
        entry = self._conversation.get(item_id)
        if entry is None:
            raise errors.no_such_item(verb, item_id)
        return entry

    def _delete_item(self, event: client.ConversationItemDelete) -> None:
        entry = self._require("delete", event.item_id)
        self._conversation.remove(entry.id)
        self._out.say(server.ItemDeleted(event_id=self._out.event_id(), item_id=entry.id))
        self._hearing.forget(entry)
        self._replies.forget(entry)

    def _truncate_item(self, event: client.ConversationItemTruncate) -> None:
        entry = self._require("truncate", event.item_id)
        if event.content_index != 0 or not isinstance(entry.item, AssistantMessage):
            raise errors.not_truncatable()
        if entry.spoken is not None:
            # Clients count what they played and overshoot by a little: that is no error.
            audio_end_ms = entry.spoken.hear(event.audio_end_ms)
            if entry.in_progress and self._turn is not None and self._turn.doubted:
                self._confirm(self._turn)
        elif event.audio_end_ms == 0:
            audio_end_ms = 0  # it has no audio of which to hear more
        else:
            raise errors.not_truncatable()
        self._out.say(
            server.ItemTruncated(
                event_id=self._out.event_id(),
                item_id=entry.id,
                content_index=0,
                audio_end_ms=audio_end_ms,
            )
        )

    # -- from the pipeline -----------------------------------------------------------------------

    def receive_transcript(self, request_id: str, message: TextDelta | End | Failed) -> None:
        """The next message of a Transcribe command."""
        if self._closed:
            return
        heard = self._hearing.receive(request_id, message)
        if heard is None:
            return
        turn = self._turn
        if turn is None or heard.entry is not turn.guess:
            self._replies.words_are_in(heard)
            return
        detection = self._config.audio.input.turn_detection
        if heard.failure is not None:
            self._drop_guess()  # the turn's end will ask again
        else:
            if not self._settle_doubt(turn):
                return
            turn.stop_prob = heard.stop_prob
            if detection is not None and detection.create_response:
                self._replies.guess(self._config, heard.entry)
        self._end_turn_if_over()

    def receive_turn_end(self, request_id: str, message: TurnEnd | Failed) -> None:
        """The answer to a Judge command."""
        turn = self._turn
        if self._closed or turn is None or turn.judging != request_id:
            return
        turn.judging = None
        if isinstance(message, TurnEnd):
            turn.sound = message.probability
        else:
            turn.give_up_judging()
        self._end_turn_if_over()

    def receive_prepared(self, request_id: str) -> None:
        """A speculative reply has something to give, or has ended."""
        if not self._closed:
            self._replies.guess_is_prepared(request_id)
            self._end_turn_if_over()

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
                self._idle.arm()

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
