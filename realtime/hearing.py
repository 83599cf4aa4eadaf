"""The user's words on their way from the Transcriber: to the model always, to the client if asked.

The Thinker of a cascade hears through the Transcriber, so every audio item is transcribed; events
about it go out only where the session has transcription on. A Thinker that hears gets the recording
and waits for no transcript, which then only tells whether there were words, and where a turn ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.messages import End, Failed, Plan, Start, TextDelta, TokenLogprob
from realtime.commands import Abort, Recording, Transcribe
from realtime.conversation import Entry
from realtime.interruption import is_echo
from realtime.invented import is_invented
from realtime.outgoing import Outgoing
from realtime.protocol import server
from realtime.protocol.config import AnyFormat, Pcm, Transcription, rate_of


@dataclass(slots=True)
class _Listening:
    entry: Entry
    content_index: int
    seconds: float
    shown: bool
    withheld: bool
    over: str
    told: int = 0  # pieces
    pieces: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] | None = None  # if they are asked for
    ending: End | Failed | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """A part's transcript is there, or will never be: then `failure` says why.

    stop_prob: probability that it ends a sentence, if the Transcriber has told it.
    """

    entry: Entry
    failure: Failed | None = None
    stop_prob: float | None = None


def _is_nobodys(transcript: str, end: End, over: str) -> bool:
    """Whether the Transcriber has made it up, or heard Sori itself."""
    return is_invented(transcript, end.meta) or is_echo(transcript, over)


def _language(wish: Transcription) -> str | None:
    """One hint is all that the Transcriber takes."""
    return wish.language or (wish.languages[0] if wish.languages else None)


def _prompt(wish: Transcription) -> str:
    """The prompt, with the keywords before it: to Whisper both are text that went before."""
    keywords = ", ".join(wish.keywords or ())
    return " ".join(
        part for part in (f"{keywords}." if keywords else "", wish.prompt or "") if part
    )


def _told_logprobs(found: list[TokenLogprob] | None) -> tuple[server.Logprob, ...] | None:
    if found is None:
        return None
    return tuple(
        server.Logprob(token=one.token, bytes=tuple(one.token.encode()), logprob=one.logprob)
        for one in found
    )


_AS_RECEIVED = Pcm(rate=16_000)


class Hearing:
    """Transcriptions under way in one session. keeps_recordings: for a Thinker that hears."""

    def __init__(self, out: Outgoing, session_id: str, *, keeps_recordings: bool = False) -> None:
        self._out = out
        self._session_id = session_id
        self._keeps_recordings = keeps_recordings
        self._running: dict[str, _Listening] = {}

    def begin(
        self,
        entry: Entry,
        content_index: int,
        audio: bytes,
        seconds: float,
        wish: Transcription | None,
        encoding: AnyFormat = _AS_RECEIVED,
        *,
        shown: bool = True,
        withheld: bool = False,
        over: str = "",
        logprobs: bool = False,
    ) -> None:
        """Have a part of an item transcribed. wish: what the session says of transcription.

        withheld: the item may never be; events about it wait for `reveal`. over: what Sori was
        saying meanwhile, which is not taken for words of the user's. logprobs: tell them, too.
        """
        entry.transcripts[content_index] = None
        rate_hz = rate_of(encoding)
        if self._keeps_recordings:
            entry.recordings[content_index] = Recording(
                entry.id, content_index, audio, encoding.type, rate_hz, seconds
            )
        request_id = self._out.new_id("transcribe")
        self._running[request_id] = _Listening(
            entry, content_index, seconds, shown and wish is not None, withheld, over
        )
        if logprobs:
            self._running[request_id].logprobs = []
        start = Start(
            request_id=request_id,
            plan=Plan.TRANSCRIBE,
            session_id=self._session_id,
            language=_language(wish) if wish is not None else None,
            prompt=_prompt(wish) if wish is not None else "",
            token_logprobs=logprobs,
        )
        self._out.ask(Transcribe(start, audio, encoding.type, rate_hz))

    def receive(self, request_id: str, message: TextDelta | End | Failed) -> Heard | None:
        """Take the next message of a request; something once it is over."""
        listening = self._running.get(request_id)
        if listening is None:
            return None
        if isinstance(message, TextDelta):
            self._say_delta(listening)
            listening.pieces.append(message.text)
            if listening.logprobs is not None:
                listening.logprobs += message.logprobs
            return None
        listening.ending = message
        failure = message if isinstance(message, Failed) else None
        transcript = "".join(listening.pieces).strip()
        if isinstance(message, Failed) or _is_nobodys(transcript, message, listening.over):
            transcript = ""
            listening.pieces.clear()
            if listening.logprobs is not None:
                listening.logprobs.clear()
        self._say_delta(listening)
        listening.entry.transcripts[listening.content_index] = transcript
        if not listening.withheld:
            self._finish(request_id, listening)
        stop_prob = message.meta.get("stop_prob") if isinstance(message, End) else None
        return Heard(listening.entry, failure, stop_prob)

    def reveal(self, entry: Entry) -> None:
        """The item is real: say what was withheld about it."""
        for request_id, listening in list(self._running.items()):
            if listening.entry is entry and listening.withheld:
                listening.withheld = False
                if listening.ending is not None:
                    self._say_delta(listening)
                    self._finish(request_id, listening)

    def _finish(self, request_id: str, listening: _Listening) -> None:
        del self._running[request_id]
        if isinstance(listening.ending, Failed):
            self._say_failed(listening, listening.ending)
        else:
            transcript = listening.entry.transcripts[listening.content_index]
            self._say_completed(listening, transcript or "")

    def forget(self, entry: Entry) -> None:
        """Stop transcribing an item that is gone."""
        for request_id, listening in list(self._running.items()):
            if listening.entry is entry:
                del self._running[request_id]
                entry.transcripts[listening.content_index] = ""
                self._out.ask(Abort(request_id))

    def forget_all(self) -> None:
        """Stop all transcription."""
        for listening in list(self._running.values()):
            self.forget(listening.entry)

    def _say_delta(self, listening: _Listening) -> None:
        """Say what was not said yet. The last piece waits for the end: it may be nobody's words."""
        if listening.withheld:
            return
        text = "".join(listening.pieces[listening.told :])
        listening.told = len(listening.pieces)
        if listening.shown and text:
            self._out.say(
                server.TranscriptionDelta(
                    event_id=self._out.event_id(),
                    item_id=listening.entry.id,
                    content_index=listening.content_index,
                    delta=text,
                )
            )

    def _say_completed(self, listening: _Listening, transcript: str) -> None:
        if not listening.shown:
            return
        listening.entry.show_transcript(listening.content_index, transcript)
        self._out.say(
            server.TranscriptionCompleted(
                event_id=self._out.event_id(),
                item_id=listening.entry.id,
                content_index=listening.content_index,
                transcript=transcript,
                usage=server.DurationUsage(seconds=round(listening.seconds, 3)),
                logprobs=_told_logprobs(listening.logprobs),
            )
        )

    def _say_failed(self, listening: _Listening, failure: Failed) -> None:
        if not listening.shown:
            return
        self._out.say(
            server.TranscriptionFailed(
                event_id=self._out.event_id(),
                item_id=listening.entry.id,
                content_index=listening.content_index,
                error=server.TranscriptionError(
                    type="server_error", code=failure.code, message=failure.message
                ),
            )
        )
