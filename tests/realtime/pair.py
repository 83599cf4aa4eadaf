"""A client and a Session back to back: what the one sends the other answers, without a socket.

Every event that the Session sends is checked against the strict types of the official Python client
(but for the extensions it cannot know) and for what must hold of any sequence.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from official_types import check_official

from pipeline.messages import (
    Alignment,
    End,
    Failed,
    Speech,
    TextDelta,
    ToolCallDelta,
    TurnEnd,
    Usage,
)
from realtime.commands import Command, Judge, StartReply, Transcribe
from realtime.errors import ClientError
from realtime.picture_limits import PictureLimits
from realtime.protocol import dump_event, parse_event
from realtime.protocol.config import Audio, AudioInput, ServerVad, SessionConfig
from realtime.protocol.server import server_events
from realtime.session import Session, SessionSettings
from realtime.sight import check_images

Wanted = TypeVar("Wanted")
Event = dict[str, Any]

WINDOW = 512


class Pair:
    """`log` holds every event as the client reads it, `commands` every command.

    strict: check every event against our own types and the official ones.
    """

    def __init__(self, *, strict: bool = True, **settings: Any) -> None:
        numbers = itertools.count(1)
        self.log: list[Event] = []  # since the last `turn_page`
        self.past: list[Event] = []
        self.commands: list[Command] = []
        self._strict = strict
        self._sight = settings.get("sight", PictureLimits())
        self.received = 0
        # Turns end by silence alone, unless a test asks for more.
        detection = AudioInput(turn_detection=ServerVad())
        settings.setdefault(
            "config", SessionConfig(instructions="Be kind.", audio=Audio(input=detection))
        )
        self.session = Session(
            SessionSettings(
                session_id="sess_pair", new_id=lambda kind: f"{kind}_s{next(numbers)}", **settings
            )
        )
        self.drain()

    # -- what the client does --------------------------------------------------------------------

    def send(self, event: Mapping[str, Any] | str | bytes) -> list[Event]:
        """One frame, and the events that answer it."""
        before = len(self.log)
        try:
            parsed = parse_event(event)
            sizes = check_images(parsed, self._sight) if self._sight.count else ()
            self.session.receive_client(parsed, sizes)
        except ClientError as error:
            self.session.receive_error(error)
        self.drain()
        return self.log[before:]

    def update(self, **session: Any) -> list[Event]:
        return self.send({"type": "session.update", "session": {"type": "realtime", **session}})

    def hear(self, probability: float, ms: int) -> list[Event]:
        """Microphone audio of which the ears say that it is speech with this probability."""
        before = len(self.log)
        for _ in range(ms * 16 // WINDOW):
            self.append(WINDOW)
            self.session.receive_speech(Speech(probability, self.received))
            self.drain()
        return self.log[before:]

    def append(self, samples: int) -> list[Event]:
        """Microphone audio that no ear listens to."""
        before = len(self.log)
        self.session.receive_audio(np.full(samples, 7, np.int16))
        self.received += samples
        self.drain()
        return self.log[before:]

    def say(self, words: str) -> list[Event]:
        """A whole turn, spoken and transcribed."""
        before = len(self.log)
        self.hear(0.0, 640)
        self.hear(0.9, 640)
        self.hear(0.0, 640)
        self.transcribe(words)
        return self.log[before:]

    def write(self, text: str, **item: Any) -> list[Event]:
        content = [{"type": "input_text", "text": text}]
        message = {"type": "message", "role": "user", "content": content, **item}
        return self.send({"type": "conversation.item.create", "item": message})

    # -- what the engine does --------------------------------------------------------------------

    def last(self, kind: type[Wanted]) -> Wanted:
        return next(one for one in reversed(self.commands) if isinstance(one, kind))

    def all(self, kind: type[Wanted]) -> list[Wanted]:
        return [one for one in self.commands if isinstance(one, kind)]

    def transcribe(self, *words: str, failure: Failed | None = None) -> list[Event]:
        """The Transcriber answers the last command."""
        before = len(self.log)
        request_id = self.last(Transcribe).start.request_id
        for word in words:
            self.session.receive_transcript(request_id, TextDelta(word))
        self.session.receive_transcript(request_id, failure or End())
        self.drain()
        return self.log[before:]

    def judge(self, finished: float | Failed) -> list[Event]:
        """The turn detector answers the last command."""
        before = len(self.log)
        message = TurnEnd(finished) if isinstance(finished, float) else finished
        self.session.receive_turn_end(self.last(Judge).start.request_id, message)
        self.drain()
        return self.log[before:]

    def prepare(self) -> list[Event]:
        """The speculative reply has its first sound."""
        before = len(self.log)
        self.session.receive_prepared(self.last(StartReply).start.request_id)
        self.drain()
        return self.log[before:]

    def reply(
        self, *messages: TextDelta | ToolCallDelta | Alignment | End | Failed | int
    ) -> list[Event]:
        """The cascade answers the last command; a number is that many samples of audio."""
        return self.reply_to(self.last(StartReply), *messages)

    def reply_to(
        self,
        command: StartReply,
        *messages: TextDelta | ToolCallDelta | Alignment | End | Failed | int,
    ) -> list[Event]:
        before = len(self.log)
        request_id, generation = command.start.request_id, command.start.generation
        for message in messages:
            if isinstance(message, int):
                self.session.receive_reply_audio(request_id, generation, [b"\1\2\3\4"], message)
            else:
                self.session.receive_reply(request_id, generation, message)
        self.drain()
        return self.log[before:]

    def answer(self, text: str, samples: int = 24_000) -> list[Event]:
        """A whole spoken reply, of one word a token."""
        words = tuple(TextDelta(piece) for piece in _words(text))
        spans = _spans(text, samples)
        return self.reply(*words, Alignment(spans), samples, End(usage=Usage(10, len(words), 4)))

    # -- what holds of any sequence --------------------------------------------------------------

    def drain(self) -> None:
        """Take what the Session has to say and wants done."""
        for event in self.session.events_to_send():
            frame = dump_event(event)
            document = json.loads(frame)
            if self._strict:
                assert server_events.validate_json(frame) == event
                check_official(document)
            self.log.append(document)
        self.commands += self.session.commands_to_run()

    def turn_page(self) -> None:
        """Begin a new log; what was in the old one still counts in `check`."""
        self.past += self.log
        self.log = []

    def check(self) -> None:
        """Ids are new, each response and item is created before it is done, and done once."""
        log = self.past + self.log
        ids = Counter(event["event_id"] for event in log)
        assert max(ids.values()) == 1
        created = [e["response"]["id"] for e in log if e["type"] == "response.created"]
        done = [e["response"]["id"] for e in log if e["type"] == "response.done"]
        assert len(set(created)) == len(created)
        assert len(set(done)) == len(done)
        assert set(done) <= set(created)
        open_responses: set[str] = set()
        known_items: set[str] = set()
        for event in log:
            self._follow(event, open_responses, known_items)

    def _follow(self, event: Event, open_responses: set[str], items: set[str]) -> None:
        kind = event["type"]
        if kind == "response.created":
            open_responses.add(event["response"]["id"])
        elif kind == "response.done":
            open_responses.remove(event["response"]["id"])
        elif kind.startswith("response."):
            assert event["response_id"] in open_responses, event
            if kind == "response.output_item.added":
                items.add(event["item"]["id"])
            else:
                assert event.get("item_id", event.get("item", {}).get("id")) in items, event
        elif kind == "conversation.item.added":
            assert event["previous_item_id"] is None or event["previous_item_id"] in items, event
            items.add(event["item"]["id"])
        elif kind.startswith("conversation.item."):
            assert event.get("item_id", event.get("item", {}).get("id")) in items, event

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.log if event["type"] == kind]


def kinds(events: Sequence[Event]) -> list[str]:
    """The events' types, with runs of the same delta as one."""
    found: list[str] = []
    for event in events:
        if not (found and found[-1] == event["type"] and event["type"].endswith(".delta")):
            found.append(event["type"])
    return found


def _words(text: str) -> list[str]:
    first, *others = text.split(" ")
    return [first, *(f" {word}" for word in others)]


def _spans(text: str, samples: int) -> tuple[tuple[int, int, int], ...]:
    """Each word as long as the next one."""
    words = _words(text)
    ends = list(itertools.accumulate(len(word) for word in words))
    starts = [0, *(end + 1 for end in ends[:-1])]
    return tuple(
        (start, end, samples * (index + 1) // len(words))
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
    )
