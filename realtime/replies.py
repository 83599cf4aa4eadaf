"""All responses of a session: which may begin, which wait for words, and which are over.

One response writes into the conversation at a time; those beside it run in parallel. What the
cascade sends for a reply that is over is dropped in one place, `_live`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.abilities import Ability
from pipeline.messages import Alignment, End, Failed, TextDelta, ToolCallDelta
from realtime import errors
from realtime.commands import Abort, Pause, Release, Resume, StartReply
from realtime.conversation import Conversation, Entry
from realtime.errors import ClientError
from realtime.hearing import Heard, Hearing
from realtime.item_intake import ItemAudio, take_in
from realtime.outgoing import Outgoing
from realtime.playback import Playback
from realtime.prompt import Prompt, prompt_of
from realtime.protocol.config import SessionConfig, rate_of
from realtime.protocol.items import FunctionCall, ItemReference
from realtime.protocol.responses import ResponseError, ResponseParams, StatusDetails
from realtime.responses import Reply, spec_of, start_of
from realtime.session_settings import SessionSettings
from realtime.session_update import require_function
from realtime.transitions import ReplyState, ReplyTrigger

CANCELLED_BY_CLIENT = StatusDetails(type="cancelled", reason="client_cancelled")
CANCELLED_BY_SPEECH = StatusDetails(type="cancelled", reason="turn_detected")
OUT_OF_TOKENS = StatusDetails(type="incomplete", reason="max_output_tokens")


@dataclass(slots=True)
class _Guess:
    """A reply begun before it is known to be wanted. It fits only the prompt it was made for.

    prepared: its first sound or text is there.
    """

    reply: Reply
    prompt: Prompt
    prepared: bool = False


class Replies:
    """The responses that are not over yet.

    user_is_speaking: while it is true, held replies stay held.
    voice_heard: whether any audio has been sent.
    """

    def __init__(
        self,
        settings: SessionSettings,
        out: Outgoing,
        conversation: Conversation,
        hearing: Hearing,
    ) -> None:
        self._settings = settings
        self._out = out
        self._conversation = conversation
        self._hearing = hearing
        self._replies: dict[str, Reply] = {}
        self._active: Reply | None = None  # the one of the conversation
        self._generation = 0
        self._guess: _Guess | None = None
        self._doubted = False  # whether what interrupts may be no speech
        self.playback = Playback()
        self.user_is_speaking = False
        self.voice_heard = False

    # -- beginning -------------------------------------------------------------------------------

    def create(
        self,
        config: SessionConfig,
        params: ResponseParams | None,
        sizes: Iterator[tuple[int, int]] | None = None,
    ) -> None:
        """Begin the response that a client asks for. Raises ClientError.

        sizes: of the pictures in it, as `take_in` has them.
        """
        params = params or ResponseParams()
        beside = params.conversation == "none"
        self._require_room(beside)
        spec = spec_of(config, params)
        require_function(spec.tool_choice, spec.tools, "response.tool_choice")
        if Ability.CALLS in self._settings.lacks and spec.tools and spec.tool_choice != "none":
            raise errors.no_calls("response.tools" if params.tools else "response.tool_choice")
        context, audio = self._context(config, params, sizes)
        if not beside:
            self.drop_guess()
        if not beside and self._active is not None:
            # A held reply would answer the same words.
            self._drop(self._active)
        reply = Reply(self._out, spec, None if beside else self._conversation, context)
        self._add(reply)
        for entry, part in audio:
            wish = config.audio.input.transcription
            encoding = config.audio.input.format
            self._hearing.begin(
                entry, part.content_index, part.data, part.seconds, wish, encoding, shown=False
            )
        reply.announce()
        self._start_if_ready(reply)

    def _require_room(self, beside: bool) -> None:
        if not beside:
            if self._active is not None and self._active.state is not ReplyState.HELD:
                raise errors.active_response(self._active.id)
            return
        running = sum(reply.beside_conversation for reply in self._replies.values())
        if running >= self._settings.max_parallel_responses:
            raise ClientError(
                "rate_limit_exceeded",
                f"At most {running} responses may run beside the conversation at a time.",
                "response.conversation",
            )

    def _context(
        self,
        config: SessionConfig,
        params: ResponseParams,
        sizes: Iterator[tuple[int, int]] | None,
    ) -> tuple[tuple[Entry, ...] | None, list[tuple[Entry, ItemAudio]]]:
        """The items that a client brings along, and the audio in them."""
        if params.input is None:
            return None, []
        context: list[Entry] = []
        audio: list[tuple[Entry, ItemAudio]] = []
        calls: set[str] = set()
        for index, item in enumerate(params.input):
            param = f"response.input[{index}]"
            if isinstance(item, ItemReference):
                found = self._conversation.get(item.id)
                if found is None:
                    raise ClientError(
                        "invalid_value", f"The item with id '{item.id}' does not exist.", param
                    )
                entry = found
            else:
                entry, parts = take_in(
                    item,
                    param,
                    config.audio.input.format,
                    self._out.new_id,
                    lambda call_id: call_id in calls or self._conversation.has_call(call_id),
                    sizes,
                )
                audio += [(entry, part) for part in parts]
            if isinstance(entry.item, FunctionCall) and entry.item.call_id:
                calls.add(entry.item.call_id)
            context.append(entry)
        self._require_sight(context)
        return tuple(context), audio

    def _require_sight(self, context: Sequence[Entry]) -> None:
        """What a client names itself is not left out, as old pictures are: it is refused."""
        pictures = [picture for entry in context for picture in entry.pictures.values()]
        fault = self._settings.sight.excess(
            len(pictures),
            sum(one.height * one.width for one in pictures),
            sum(len(one.url) for one in pictures),
        )
        if fault:
            message = f"Invalid 'response.input': {fault}."
            raise ClientError("invalid_value", message, "response.input")

    def hold_for(self, config: SessionConfig, entry: Entry, revisions: int = 0) -> None:
        """A turn of the user is to be answered, once it is known to have words.

        A reply that runs already is left alone: the client asked not to have it interrupted.
        """
        if self._active is not None and self._active.state is not ReplyState.HELD:
            return
        if self._active is None:
            spec = spec_of(config, ResponseParams())
            prompt = prompt_of(spec.instructions, self._conversation)
            guess = self._guess
            if guess is not None and guess.prompt == prompt and guess.reply.spec == spec:
                self._guess = None
                self._add(guess.reply)
            else:
                reply = Reply(self._out, spec, self._conversation)
                self._add(reply)
                if entry.pending and self._all_ready(reply):
                    # The Thinker hears: only whether there are words in it is still to be told.
                    self._run(reply, prompt, speculative=True)
        self.drop_guess()
        assert self._active is not None
        self._active.awaited.append(entry)
        self._active.revisions += revisions

    def guess(self, config: SessionConfig, entry: Entry) -> None:
        """Begin the reply to a turn that may be over. Nothing of it is told before `hold_for`."""
        entries = (*self._conversation, entry)
        if entry.wordless:
            self.drop_guess()
            return
        if self._active is not None or not all(one.ready for one in entries):
            return
        spec = spec_of(config, ResponseParams())
        prompt = prompt_of(spec.instructions, entries)
        guess = self._guess
        if guess is not None and guess.prompt == prompt and guess.reply.spec == spec:
            return
        self.drop_guess()
        reply = Reply(self._out, spec, self._conversation)
        self._guess = _Guess(reply, prompt)
        self._run(reply, prompt, speculative=True)

    @property
    def preparing(self) -> bool:
        """Whether a reply was begun on a guess, and has nothing to give yet."""
        return self._guess is not None and not self._guess.prepared

    def guess_is_prepared(self, request_id: str) -> None:
        """It has now."""
        if self._guess is not None and self._guess.reply.id == request_id:
            self._guess.prepared = True

    def drop_guess(self) -> None:
        """The turn went on, or is no longer to be answered."""
        if self._guess is not None:
            self._out.ask(Abort(self._guess.reply.id))
            self._guess.reply.drop()
            self._guess = None

    def _add(self, reply: Reply) -> None:
        self._replies[reply.id] = reply
        if not reply.beside_conversation:
            self._active = reply

    def _entries(self, reply: Reply) -> tuple[Entry, ...]:
        """What it answers."""
        return tuple(self._conversation) if reply.context is None else reply.context

    def _all_ready(self, reply: Reply) -> bool:
        return all(entry.ready for entry in self._entries(reply))

    def _start_if_ready(self, reply: Reply) -> None:
        if reply.state is not ReplyState.WAITING or not self._all_ready(reply):
            return
        if reply.generation:  # it was begun as a guess
            reply.start()
            self._out.ask(Release(reply.id))
        else:
            self._run(reply, self._prompt(reply), speculative=False)
            reply.start()
        if self._doubted and reply is self._active:
            self._pause(reply)

    def _prompt(self, reply: Reply) -> Prompt:
        return prompt_of(reply.spec.instructions, self._entries(reply))

    def _run(self, reply: Reply, prompt: Prompt, *, speculative: bool) -> None:
        self._generation += 1
        reply.prepare(self._generation, prompt)
        settings, voice = self._settings, reply.spec.voice
        if settings.voices and voice not in settings.voices:
            voice = settings.default_voice
        start = start_of(
            reply,
            prompt.items,
            session_id=settings.session_id,
            voice=voice,
            speculative=speculative,
        )
        encoding = reply.spec.format
        self._out.ask(
            StartReply(
                start,
                encoding.type,
                rate_of(encoding),
                recordings=prompt.recordings,
                pictures=prompt.pictures,
            )
        )

    # -- words -----------------------------------------------------------------------------------

    def words_are_in(self, heard: Heard) -> None:
        """A transcript has come, or will not come."""
        if heard.failure is not None:
            for reply in list(self._replies.values()):
                waits = reply.state is ReplyState.WAITING and not heard.entry.recordings
                if waits and heard.entry in self._entries(reply):
                    self._fail(reply, heard.failure)
        self.release_held(heard.failure)
        for reply in list(self._replies.values()):
            self._start_if_ready(reply)

    def release_held(self, failure: Failed | None = None) -> None:
        """Let a held reply begin if it has words to answer, or drop it if there will be none."""
        reply = self._active
        if reply is None or reply.state is not ReplyState.HELD or self.user_is_speaking:
            return
        unread = failure is not None and any(entry.recordings for entry in reply.awaited)
        if unread or any(entry.text() for entry in reply.awaited):
            reply = self._up_to_date(reply)
            reply.announce()
            self._start_if_ready(reply)
        elif not any(entry.pending for entry in reply.awaited):
            if failure is None:
                self._drop(reply)
            else:
                reply.announce()
                self._fail(reply, failure)

    def _up_to_date(self, held: Reply) -> Reply:
        """The same, or one in its place if it was begun before more was said."""
        if not held.generation or held.prompt == self._prompt(held):
            return held
        reply = Reply(self._out, held.spec, self._conversation)
        reply.awaited, reply.revisions = held.awaited, held.revisions
        self._drop(held)
        self._add(reply)
        return reply

    def forget(self, entry: Entry) -> None:
        """An item is gone; what waited for it no longer does."""
        if self._active is not None and entry in self._active.awaited:
            self._active.awaited.remove(entry)
            self.release_held()
        for reply in list(self._replies.values()):
            self._start_if_ready(reply)

    # -- from the cascade ------------------------------------------------------------------------

    def _live(self, request_id: str, generation: int | None = None) -> Reply | None:
        """The running reply that this belongs to. Anything older ends here."""
        reply = self._replies.get(request_id)
        if reply is None or reply.state is not ReplyState.RUNNING:
            return None
        return reply if generation in (None, reply.generation) else None

    def receive(
        self,
        request_id: str,
        generation: int,
        message: TextDelta | ToolCallDelta | Alignment | End | Failed,
    ) -> None:
        """The next message of a reply."""
        reply = self._live(request_id, generation)
        if reply is None:
            if isinstance(message, Failed):
                self._fail_paused(request_id, message)
            return
        match message:
            case End(reason="length", usage=usage):
                self._remove(reply)
                reply.end(ReplyTrigger.RUN_OUT, OUT_OF_TOKENS, usage)
            case End(usage=usage):
                self._remove(reply)
                reply.end(ReplyTrigger.FINISH, None, usage)
            case Failed():
                self._fail(reply, message)
            case _:
                reply.add(message)

    def _fail_paused(self, request_id: str, failure: Failed) -> None:
        """Of a paused reply nothing comes, unless whoever runs it has failed."""
        reply = self._replies.get(request_id)
        if reply is not None and reply.state is ReplyState.PAUSED:
            self._fail(reply, failure)

    def receive_audio(
        self, request_id: str, generation: int, payloads: list[bytes], samples: int
    ) -> None:
        """Audio of a reply."""
        reply = self._live(request_id, generation)
        if reply is not None and reply.add_audio(payloads, samples):
            self.voice_heard = True
            if not reply.beside_conversation and reply.spoken is not None:
                self.playback.follow(reply.id, reply.spoken)

    def receive_timings(self, request_id: str, timings_ms: dict[str, int]) -> None:
        """When a reply reached its points."""
        if (reply := self._live(request_id)) is not None:
            reply.timings_ms.update(timings_ms)

    # -- ending ----------------------------------------------------------------------------------

    def cancel(self, response_id: str | None) -> None:
        """A client wants one to stop; by default the conversation's. Raises ClientError.

        One that is over may still be played: then too the client stops, and the model forgets.
        """
        reply = self._active if response_id is None else self._replies.get(response_id)
        if reply is None:
            if response_id in (None, self.playback.response_id):
                self.playback.cut()
            raise errors.nothing_to_cancel()
        if reply.state is ReplyState.HELD:
            # To the client, a turn that has ended is being answered.
            reply.announce()
        if reply is self._active:
            self.playback.cut()
        self._cancel(reply, CANCELLED_BY_CLIENT)

    def interrupt(self) -> None:
        """The user speaks: the conversation's reply stops. One that is held waits."""
        self._doubted = False
        self.playback.cut()
        if self._active is not None and self._active.state is not ReplyState.HELD:
            self._cancel(self._active, CANCELLED_BY_SPEECH)

    def pause(self) -> None:
        """The user may be interrupting: nothing more of the conversation's reply for now."""
        self._doubted = True
        if self._active is not None and self._active.state is ReplyState.RUNNING:
            self._pause(self._active)
        elif self.playback.response_id is not None:
            self._out.ask(Pause(self.playback.response_id))  # all sent, but not all heard

    def _pause(self, reply: Reply) -> None:
        reply.pause()
        self._out.ask(Pause(reply.id))

    def resume(self) -> None:
        """The user was not: it goes on as if nothing had happened."""
        self._doubted = False
        if self._active is not None and self._active.state is ReplyState.PAUSED:
            self._active.resume()
            self._out.ask(Resume(self._active.id))
        elif self.playback.response_id is not None:
            self._out.ask(Resume(self.playback.response_id))

    @property
    def any(self) -> bool:
        """Whether there is a response that is not over, announced or not."""
        return bool(self._replies)

    @property
    def busy(self) -> bool:
        """Whether the conversation is being answered, or an answer is still to be heard."""
        return self._active is not None or self.playback.sounding

    @property
    def paused(self) -> bool:
        """Whether the conversation's reply is paused."""
        return self._active is not None and self._active.state is ReplyState.PAUSED

    def speaking_text(self) -> str:
        """What the conversation's reply has said so far."""
        return self._active.spoken_text if self._active is not None else ""

    def cancel_all(self) -> None:
        """The session ends."""
        self.drop_guess()
        for reply in list(self._replies.values()):
            if reply.state is ReplyState.HELD:
                self._drop(reply)
            else:
                self._cancel(reply, CANCELLED_BY_CLIENT)

    def _cancel(self, reply: Reply, details: StatusDetails) -> None:
        if reply.state in (ReplyState.RUNNING, ReplyState.PAUSED):
            self._out.ask(Abort(reply.id))
        self._remove(reply)
        reply.end(ReplyTrigger.CANCEL, details)

    def _fail(self, reply: Reply, failure: Failed) -> None:
        error = ResponseError(type="server_error", code=failure.code, message=failure.message)
        self._remove(reply)
        reply.end(ReplyTrigger.FAIL, StatusDetails(type="failed", error=error))

    def _drop(self, reply: Reply) -> None:
        if reply.generation:
            self._out.ask(Abort(reply.id))
        self._remove(reply)
        reply.drop()

    def _remove(self, reply: Reply) -> None:
        del self._replies[reply.id]
        if self._active is reply:
            self._active = None
