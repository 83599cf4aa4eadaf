"""A client that does anything at any time, and an engine that answers whenever it likes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_args

from pair import Event, Pair
from wrong_events import examples, mistakes

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
from realtime.commands import Judge, StartReply, Transcribe
from realtime.protocol import ClientEvent, InputAudioBufferAppend

GARBAGE = ("", "{", "[]", "null", '"hello"', "{}", '{"type": 7}', "\x00", '{"type": "no.such"}')

DOT = {
    "type": "input_image",
    "image_url": "data:image/gif;base64,R0lGODdhAQABAIAAAAAAAAAAACwAAAAAAQABAAACAkQBADs=",
}
"""A picture of one pixel."""

TRANSCRIPTS: tuple[TextDelta | End | Failed, ...] = (
    TextDelta("what is it"),
    TextDelta(""),
    End(),
    End(),
    Failed("gone", "It is gone."),
)
JUDGEMENTS: tuple[TurnEnd | Failed, ...] = (TurnEnd(0.1), TurnEnd(0.9), Failed("gone", "Gone."))
REPLIES: tuple[TextDelta | ToolCallDelta | Alignment | End | Failed | int, ...] = (
    TextDelta("One two", token_ids=(1, 2)),
    TextDelta(""),
    ToolCallDelta("call_a", "look", '{"a":'),
    ToolCallDelta("call_b", "look", "{}"),
    Alignment(((0, 3, 4_000),)),
    4_800,
    End(usage=Usage(3, 2)),
    End("length"),
    Failed("worker_died", "It died."),
)


@cache
def right_events() -> list[Event]:
    """Every kind of event that a Session takes, in each of its shapes."""
    kinds = [one for one in get_args(ClientEvent) if one is not InputAudioBufferAppend]
    found = [event for kind in kinds for event in examples(kind)]
    item = {"type": "message", "role": "user", "content": [DOT, DOT]}
    return [
        *found,
        {"type": "conversation.item.create", "item": item},
        {"type": "response.create", "response": {"input": [item]}},
    ]


@cache
def wrong_events() -> list[tuple[Event, str | None]]:
    """Events with one mistake, and the event_id that the error has to carry."""
    found = [one for kind in get_args(ClientEvent) for one in mistakes(kind)]
    return [(one.event, one.event_id) for one in found]


class RandomClient:
    """Drives a pair. The same seed does the same."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.random = random.Random(seed)
        self._items = ["no_such_item"]
        self._read = 0

    def act(self) -> None:
        """One step of anybody's."""
        pick = self.random.choices(*_ACTIONS)[0]
        pick(self)
        for event in self.pair.log[self._read :]:
            if event["type"] == "conversation.item.added":
                self._items.append(event["item"]["id"])
        self._read = len(self.pair.log)

    # -- the client ------------------------------------------------------------------------------

    def send_right(self) -> None:
        event = dict(self.random.choice(right_events()))
        if "item_id" in event:
            event["item_id"] = self.random.choice(self._items)
        if "previous_item_id" in event:
            event["previous_item_id"] = self.random.choice([*self._items, "root", None])
        if event["type"] == "conversation.item.create" and self.random.random() < 0.8:
            event["item"] = {key: one for key, one in event["item"].items() if key != "id"}
        if event["type"] == "session.update":
            # As one key, since whole sessions would mostly be refused for one of theirs.
            key = self.random.choice(list(event["session"]))
            event["session"] = {"type": "realtime", key: event["session"][key]}
        answers = self.pair.send({**event, "event_id": "right"})
        errors = [one for one in answers if one["type"] == "error"]
        assert len(errors) <= 1
        assert all(one["error"]["event_id"] == "right" for one in errors)
        assert not errors or answers == errors

    def send_wrong(self) -> None:
        event, event_id = self.random.choice(wrong_events())
        (answer,) = self.pair.send(event)
        assert answer["type"] == "error"
        assert answer["error"]["code"]
        assert answer["error"]["param"]
        assert answer["error"]["event_id"] == event_id

    def send_garbage(self) -> None:
        (answer,) = self.pair.send(self.random.choice(GARBAGE))
        assert answer["type"] == "error"
        assert answer["error"]["code"]

    def ask(self) -> None:
        response: Any = self.random.choice([None, {}, {"conversation": "none", "input": []}])
        self.pair.send({"type": "response.create", "response": response})

    def cancel(self) -> None:
        self.pair.send({"type": "response.cancel"})

    def hear(self) -> None:
        self.pair.hear(self.random.choice([0.0, 0.9]), self.random.choice([32, 192, 640]))

    def append(self) -> None:
        self.pair.append(self.random.choice([0, 1, 512, 4_000]))

    # -- the engine ------------------------------------------------------------------------------

    def transcribe(self) -> None:
        if commands := self.pair.all(Transcribe):
            request_id = self.random.choice(commands[-3:]).start.request_id
            self.pair.session.receive_transcript(request_id, self.random.choice(TRANSCRIPTS))
            self.pair.drain()

    def judge(self) -> None:
        if commands := self.pair.all(Judge):
            request_id = commands[-1].start.request_id
            self.pair.session.receive_turn_end(request_id, self.random.choice(JUDGEMENTS))
            self.pair.drain()

    def reply(self) -> None:
        if commands := self.pair.all(StartReply):
            command = self.random.choice(commands[-3:])
            self.pair.reply_to(command, self.random.choice(REPLIES))

    def play(self) -> None:
        if commands := self.pair.all(StartReply):
            request_id = self.random.choice(commands[-2:]).start.request_id
            self.pair.session.receive_playback(request_id, self.random.choice([0, 2_400, 4_800]))

    def prepare(self) -> None:
        if self.pair.all(StartReply):
            self.pair.prepare()

    def speak_of_the_past(self) -> None:
        self.pair.session.receive_speech(Speech(0.9, max(self.pair.received - 1_024, 0)))
        self.pair.drain()


_WEIGHTS: dict[Callable[[RandomClient], None], int] = {
    RandomClient.send_right: 20,
    RandomClient.send_wrong: 8,
    RandomClient.send_garbage: 2,
    RandomClient.ask: 8,
    RandomClient.cancel: 3,
    RandomClient.hear: 14,
    RandomClient.append: 3,
    RandomClient.transcribe: 10,
    RandomClient.judge: 2,
    RandomClient.reply: 20,
    RandomClient.play: 4,
    RandomClient.prepare: 2,
    RandomClient.speak_of_the_past: 1,
}
_ACTIONS = (list(_WEIGHTS), list(_WEIGHTS.values()))


def frames(seed: int, count: int) -> Iterator[tuple[str, Any]]:
    """For a socket: (`right`, `wrong` or `garbage`; the event, text or bytes)."""
    chance = random.Random(seed)
    for _ in range(count):
        kind = chance.choices(["right", "wrong", "garbage"], [5, 3, 2])[0]
        if kind == "right":
            yield kind, {**chance.choice(right_events()), "event_id": "right"}
        elif kind == "wrong":
            yield kind, chance.choice(wrong_events())[0]
        else:
            noise = chance.randbytes(chance.randrange(200))
            yield kind, chance.choice([*GARBAGE, noise, noise.decode("latin-1")])
