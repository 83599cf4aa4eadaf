"""The user's audio: where turns begin and end in it, and the work begun on a guess.

Between the microphone and the conversation. `Turns` says where there is speech; here it becomes
turns with items, interruptions that may be none, and guesses that may be wrong.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from audio import endpointer
from audio.formats import ms_to_samples, samples_to_ms
from pipeline.messages import INPUT_RATE_HZ, Failed, Plan, Speech, Start, TurnEnd
from realtime import errors, interruption
from realtime.commands import Abort, Judge, ResetEars
from realtime.conversation import Conversation, Entry
from realtime.hearing import Heard, Hearing
from realtime.idle import IdleTimer
from realtime.input_buffer import InputBuffer
from realtime.items import say_added
from realtime.kept_audio import AS_HEARD
from realtime.open_turn import OpenTurn
from realtime.outgoing import Outgoing
from realtime.protocol import server
from realtime.protocol.config import SemanticVad, ServerVad, SessionConfig
from realtime.protocol.items import InputAudio, UserMessage
from realtime.replies import Replies
from realtime.session_settings import SessionSettings
from realtime.turn_end import Evidence, is_too_long, turn_has_ended
from realtime.turns import Turns

RESAMPLER_LAG_MS = 32
"""So much of what a client has sent may still be on its way to the buffer."""

MIN_COMMIT_SAMPLES = ms_to_samples(100 - RESAMPLER_LAG_MS, INPUT_RATE_HZ)
JUDGED_SAMPLES = ms_to_samples(8_000, INPUT_RATE_HZ)
"""All that the turn detector looks at."""


class UserAudio:
    """What the user says, from append to commit. config: the session as it is now."""

    def __init__(
        self,
        settings: SessionSettings,
        out: Outgoing,
        conversation: Conversation,
        hearing: Hearing,
        replies: Replies,
    ) -> None:
        self._settings = settings
        self._out = out
        self._conversation = conversation
        self._hearing = hearing
        self._replies = replies
        self.config = settings.config
        self._buffer = InputBuffer(max(int(settings.max_buffer_s * INPUT_RATE_HZ), 1))
        self._turns: Turns | None = None
        self._idle = IdleTimer()
        self._turn: OpenTurn | None = None  # announced by speech_started, not yet committed
        self._follow_turn_detection()

    @property
    def listening(self) -> bool:
        """Whether turn detection is on, so that the ears are of use."""
        return self._turns is not None

    @property
    def dropped_samples(self) -> int:
        """Audio dropped since the session began because the buffer was full, at 16 kHz."""
        return self._buffer.dropped

    def reconfigure(self, config: SessionConfig) -> None:
        """The session has changed: use other settings from now on."""
        before, self.config = self.config, config
        if config.audio.input.turn_detection != before.audio.input.turn_detection:
            self._follow_turn_detection()

    def _follow_turn_detection(self) -> None:
        detection = self.config.audio.input.turn_detection
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

    def announced(self, item_id: str) -> bool:
        """Whether the open turn will be this item."""
        return self._turn is not None and self._turn.item_id == item_id

    def reply_is_prepared(self) -> None:
        """What answers the open turn can be heard now."""
        self._end_turn_if_over()

    def reply_has_ended(self) -> None:
        """From the end of its playback on, silence counts."""
        self._idle.arm()

    def close(self) -> None:
        """The session is over."""
        self._drop_guess()
        self._buffer.clear()

    # -- what is heard -----------------------------------------------------------------------------

    def append(self, samples: NDArray[np.int16]) -> None:
        """More of the microphone, 16 kHz mono. Before what the ears say about it.

        Raises ClientError if it does not fit: then the ears must not count it either.
        """
        room = self._buffer.max_samples - len(self._buffer)
        if self._settings.refuse_overflow and len(samples) > room:
            raise errors.buffer_full(self._buffer.max_samples)
        self._buffer.append(samples)

    def hear(self, speech: Speech) -> None:
        """What the ears say of the next window."""
        if self._turns is None:
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
        self._replies.create(self.config, None)

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
        detection = self.config.audio.input.turn_detection
        if detection is not None and detection.interrupt_response:
            self._turn.over = self._replies.speaking_text()
            self._replies.user_is_speaking = True
            if self.config.audio.output.keeps_buffer:
                self._turn.doubted = True
                self._replies.pause()
            else:
                self._replies.interrupt()

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
            if turn.guess.ready:  # the Thinker hears: its reply need not wait for the words
                self._guess_reply(turn.guess)
        self._end_turn_if_over()
        if self._turn is turn and self._is_too_long(turn, heard_until):
            self._stop_turn(self._turns.end())

    def _is_too_long(self, turn: OpenTurn, heard_until: int) -> bool:
        assert self._turns is not None
        lasted_ms = samples_to_ms(heard_until - turn.start_sample, INPUT_RATE_HZ)
        limit_ms = int(self._settings.max_turn_s * 1000)
        return is_too_long(lasted_ms, limit_ms, paused=self._turns.paused)

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
        detection = self.config.audio.input.turn_detection
        if detection is not None and detection.create_response:
            self._replies.hold_for(self.config, entry, turn.revisions)
        else:
            self._replies.drop_guess()
        self._replies.user_is_speaking = False
        self._replies.release_held()

    # -- the guess that the turn is over -----------------------------------------------------------

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

    def take_words(self, heard: Heard) -> bool:
        """A transcript. False if it is not that of the open turn's guess."""
        turn = self._turn
        if turn is None or heard.entry is not turn.guess:
            return False
        if heard.failure is not None:
            self._drop_guess()  # the turn's end will ask again
        elif self._settle_doubt(turn):
            turn.stop_prob = heard.stop_prob
            self._guess_reply(heard.entry)
        self._end_turn_if_over()
        return True

    def _guess_reply(self, entry: Entry) -> None:
        detection = self.config.audio.input.turn_detection
        if detection is not None and detection.create_response:
            self._conversation.forget_old_recordings(entry)
            self._replies.guess(self.config, entry)

    def take_judgement(self, request_id: str, message: TurnEnd | Failed) -> None:
        """The answer to a Judge command. A late one is ignored."""
        turn = self._turn
        if turn is None or turn.judging != request_id:
            return
        turn.judging = None
        if isinstance(message, TurnEnd):
            turn.sound = message.probability
        else:
            turn.give_up_judging()
        self._end_turn_if_over()

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

    # -- interruptions that may be none ------------------------------------------------------------

    @property
    def _confirm_ms(self) -> int:
        detection = self.config.audio.input.turn_detection
        asked = detection.interrupt_confirm_ms if detection is not None else None
        return interruption.CONFIRM_MS if asked is None else asked

    def confirm_interruption(self) -> None:
        """The client has cut the reply that the open turn may be interrupting."""
        if self._turn is not None and self._turn.doubted:
            self._confirm(self._turn)

    def _confirm(self, turn: OpenTurn) -> None:
        """It is an interruption: the reply that was paused is over."""
        turn.doubted = False
        self._replies.interrupt()

    def _settle_doubt(self, turn: OpenTurn) -> bool:
        """With the words there is no doubt any more. False if the turn was none."""
        if not turn.doubted:
            return True
        # Said to a question that is over, "mhm" is an answer.
        passing = self._replies.paused and interruption.is_backchannel(
            turn.text or "", self._settings.backchannels
        )
        if turn.text and not passing:
            self._confirm(turn)
            return True
        self._dismiss_turn(turn)
        return False

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

    # -- items -------------------------------------------------------------------------------------

    def commit(self) -> None:
        """The client ends the turn. Raises ClientError."""
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
        say_added(self._out, self._conversation, entry)
        if guess is None:
            self._transcribe(entry, pcm, turn.over if turn is not None else "")
            self._conversation.forget_old_recordings(entry)
        else:
            self._hearing.reveal(entry)
        return entry

    def _user_item(self, item_id: str) -> Entry:
        return Entry(UserMessage(id=item_id, status="completed", content=(InputAudio(),)))

    def _transcribe(
        self, entry: Entry, pcm: bytes, over: str = "", *, withheld: bool = False
    ) -> None:
        seconds = len(pcm) / 2 / INPUT_RATE_HZ
        wish = self.config.audio.input.transcription
        logprobs = bool(self.config.include)
        self._hearing.begin(
            entry, 0, pcm, seconds, wish, withheld=withheld, over=over, logprobs=logprobs
        )

    def clear(self) -> None:
        """The client takes back what it has appended."""
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
