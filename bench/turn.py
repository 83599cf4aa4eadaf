"""What happened in one turn, read from the events a client received."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.playback import Gap, Piece, audible_at_s, find_gaps, lead_in_ms, playback_end_s

Event = Mapping[str, Any]

LOUDSPEAKER_MS = 20
"""What the smallest of sound outputs holds back: one buffer of the device."""


@dataclass(frozen=True, slots=True)
class Received:
    """A server event and when it came, in seconds of the client's monotonic clock.

    samples: of an audio delta, decoded on arrival because codecs have state.
    """

    at_s: float
    event: Event
    samples: NDArray[np.int16] | None = None

    @property
    def type(self) -> str:
        """The event's type."""
        return str(self.event.get("type"))


@dataclass(slots=True)
class Reply:
    """One response, from `response.created` to `response.done`."""

    response_id: str
    created_at_s: float
    rate_hz: int
    first_text_at_s: float | None = None
    done_at_s: float | None = None
    status: str = "in_progress"
    status_details: Mapping[str, Any] | None = None
    transcript: str = ""
    text: str = ""
    pieces: list[Piece] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)

    @property
    def first_audio_at_s(self) -> float | None:
        """When the first audio delta came."""
        return self.pieces[0].at_s if self.pieces else None

    @property
    def audible_at_s(self) -> float | None:
        """When the first 10 ms frame above −50 dBFS had arrived."""
        return audible_at_s(self.pieces, self.rate_hz)

    @property
    def lead_in_ms(self) -> float | None:
        """Silence ahead of it."""
        return lead_in_ms(self.pieces, self.rate_hz)

    @property
    def gaps(self) -> list[Gap]:
        """Where a loudspeaker would have fallen silent."""
        return find_gaps(self.pieces, self.rate_hz, LOUDSPEAKER_MS)

    @property
    def played_at_s(self) -> float | None:
        """When the loudspeaker has played all of it."""
        return playback_end_s(self.pieces, self.rate_hz)

    @property
    def audio(self) -> NDArray[np.int16]:
        """All its samples, at rate_hz."""
        if not self.pieces:
            return np.zeros(0, np.int16)
        return np.concatenate([piece.samples for piece in self.pieces])

    @property
    def failure(self) -> str | None:
        """Why it failed, if it did."""
        if self.status in ("completed", "cancelled", "in_progress"):
            return None
        error = (self.status_details or {}).get("error") or {}
        return f"{self.status}: {error.get('code')}: {error.get('message')}"


@dataclass(slots=True)
class Turn:
    """A user's turn and the replies to it. All times in seconds of the client's clock.

    asked_at_s: the end of the user's speech, or when a text turn's `response.create` was sent.
    """

    name: str
    asked_at_s: float
    rate_hz: int
    events: list[Received] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    user_transcripts: list[str] = field(default_factory=list)
    errors: list[Event] = field(default_factory=list)
    failure: str | None = None

    @property
    def reply(self) -> Reply | None:
        """The reply that stands: the last one that was not cancelled."""
        standing = [reply for reply in self.replies if reply.status != "cancelled"]
        return standing[-1] if standing else None

    @property
    def user_transcript(self) -> str:
        """All that the server understood of the user in this turn."""
        return " ".join(text.strip() for text in self.user_transcripts).strip()

    @property
    def cut_in(self) -> bool:
        """Whether a reply could be heard before the user had finished."""
        heard = [reply.audible_at_s for reply in self.replies]
        return any(at_s is not None and at_s < self.asked_at_s for at_s in heard)

    def first(self, event_type: str) -> Received | None:
        """The first event of this type."""
        return next((got for got in self.events if got.type == event_type), None)

    def types(self) -> list[str]:
        """Types of the events in order."""
        return [got.type for got in self.events]


def read_turn(name: str, asked_at_s: float, events: Sequence[Received], rate_hz: int) -> Turn:
    """Make the record of a turn from its events, in order of arrival."""
    turn = Turn(name, asked_at_s, rate_hz, list(events))
    replies: dict[str, Reply] = {}
    for got in events:
        event = got.event
        match got.type:
            case "error":
                turn.errors.append(event["error"])
            case "conversation.item.input_audio_transcription.completed":
                turn.user_transcripts.append(event["transcript"])
            case "response.created":
                response_id = event["response"]["id"]
                replies[response_id] = Reply(response_id, got.at_s, rate_hz)
            case _:
                reply = replies.get(event.get("response_id") or _response(event).get("id", ""))
                if reply is not None:
                    _add_to_reply(reply, got)
    turn.replies = list(replies.values())
    return turn


def _add_to_reply(reply: Reply, got: Received) -> None:
    event = got.event
    match got.type:
        case "response.output_audio_transcript.delta":
            reply.first_text_at_s = reply.first_text_at_s or got.at_s
            reply.transcript += event["delta"]
        case "response.output_text.delta":
            reply.first_text_at_s = reply.first_text_at_s or got.at_s
            reply.text += event["delta"]
        case "response.output_audio.delta":
            assert got.samples is not None
            reply.pieces.append(Piece(got.at_s, got.samples))
        case "response.done":
            response = _response(event)
            reply.done_at_s = got.at_s
            reply.status = response["status"]
            reply.status_details = response.get("status_details")
            reply.timings_ms = dict((response.get("sori") or {}).get("timings_ms") or {})


def _response(event: Event) -> Mapping[str, Any]:
    response = event.get("response")
    return response if isinstance(response, Mapping) else {}


def milliseconds(since_s: float, until_s: float | None) -> float | None:
    """From one moment to another, if the other came."""
    return None if until_s is None else (until_s - since_s) * 1000


def sentences(text: str) -> int:
    """How many sentences a reply has, roughly: terminal marks that end a word."""
    return sum(1 for _ in _sentence_ends(text.strip()))


def _sentence_ends(text: str) -> Iterator[int]:
    for at, mark in enumerate(text):
        if mark in ".!?" and (at + 1 == len(text) or text[at + 1].isspace()):
            yield at
