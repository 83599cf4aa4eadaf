"""Recordings of people, spoken in real time to a real server with the embedded models.

One conversation in each audio format, held at the same time, and then examined from all sides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray
from official_types import check_official
from process_tree import shared_names
from speech_scoring import word_error_rate

from bench.client import open_client
from bench.clips import Clip, load_clips
from bench.server import Server
from bench.turn import Reply, Turn, sentences
from bench.wire import WIRES
from pipeline.engine import Engine
from pipeline.messages import INPUT_RATE_HZ, Plan, Start, TextDelta
from realtime.config import load_config
from realtime.turn_end import EVIDENCE_PATIENCE_MS

pytestmark = [pytest.mark.models, pytest.mark.timeout(400)]

FORMATS = sorted(WIRES)
USER_WER = 0.15
REPLY_WER = 0.20
WINDOW_SAMPLES = 28 * INPUT_RATE_HZ
"""The Transcriber's window is 30 s."""

HEARD = [
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
]
ANSWER_BEGINS = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
]
ANSWER_ENDS = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
]
TRANSCRIPTION = "conversation.item.input_audio_transcription."
DELTAS = ("response.output_audio.delta", "response.output_audio_transcript.delta")


@dataclass(frozen=True, slots=True)
class Conversations:
    """Turns by format, and the clips that were spoken in them."""

    clips: list[Clip]
    turns: dict[str, list[Turn]]

    def replies(self, wire: str) -> list[Reply]:
        """The replies that stand."""
        return [turn.reply for turn in self.turns[wire] if turn.reply is not None]


@pytest.fixture(scope="module")
def conversations(model_server: Server) -> Iterator[Conversations]:
    """All clips through all formats, each format a session; sessions run at the same time."""
    clips = load_clips()
    names = shared_names()
    yield Conversations(clips, asyncio.run(_converse(model_server.realtime_url, clips)))
    assert shared_names() - names == set()


async def _converse(url: str, clips: list[Clip]) -> dict[str, list[Turn]]:
    async def hold(name: str, offset: int) -> list[Turn]:
        turns: dict[str, Turn] = {}
        async with open_client(url, WIRES[name](), transcription=True) as client:
            # Each starts with another clip: three people who talk, not one who is heard thrice.
            for clip in clips[offset:] + clips[:offset]:
                turns[clip.name] = await client.speak(clip, transcription=True)
        return [turns[clip.name] for clip in clips]

    async with asyncio.TaskGroup() as tasks:
        held = {
            name: tasks.create_task(hold(name, 2 * index)) for index, name in enumerate(FORMATS)
        }
    return {name: task.result() for name, task in held.items()}


@pytest.mark.parametrize("wire", FORMATS)
def test_every_clip_is_answered_without_an_error_and_without_a_gap(
    wire: str, conversations: Conversations
) -> None:
    for turn in conversations.turns[wire]:
        assert turn.failure is None, turn.name
        assert turn.errors == []
        assert turn.reply is not None
        # A small model may well go on until the limit on a spoken reply.
        assert turn.reply.status == "completed" or _reached_its_limit(turn.reply), turn.name
        assert turn.reply.audible_at_s is not None
        assert turn.reply.gaps == [], turn.name


@pytest.mark.parametrize("wire", FORMATS)
def test_events_come_in_the_order_of_the_protocol(wire: str, conversations: Conversations) -> None:
    whole = [turn for turn in conversations.turns[wire] if len(turn.replies) == 1]
    # A pause in a clip may end a turn; then its events are two turns' and interleave.
    assert len(whole) >= 4
    for turn in whole:
        types = [kind for kind in turn.types() if not kind.startswith(TRANSCRIPTION)]
        types = [kind for kind in types if kind != "rate_limits.updated"]
        for got in turn.events:
            check_official(got.event)
        steady = [kind for kind in types if kind not in DELTAS]
        assert steady == HEARD + ANSWER_BEGINS + ANSWER_ENDS
        first = min(types.index(kind) for kind in DELTAS)
        last = max(len(types) - 1 - types[::-1].index(kind) for kind in DELTAS)
        assert types.index(ANSWER_BEGINS[-1]) < first
        assert last < types.index(ANSWER_ENDS[1])


@pytest.mark.parametrize("wire", FORMATS)
def test_ids_hold_a_turn_together(wire: str, conversations: Conversations) -> None:
    seen: set[str] = set()
    previous: str | None = None
    for turn in sorted(conversations.turns[wire], key=lambda turn: turn.asked_at_s):
        added = [got.event for got in turn.events if got.type == "conversation.item.added"]
        assert added[0]["previous_item_id"] == previous
        previous = added[-1]["item"]["id"]
        if len(turn.replies) != 1:
            continue
        started = turn.first("input_audio_buffer.speech_started")
        assert started is not None
        user = started.event["item_id"]
        assert user not in seen
        for kind in ("input_audio_buffer.speech_stopped", "input_audio_buffer.committed"):
            got = turn.first(kind)
            assert got is not None
            assert got.event["item_id"] == user
        completed = turn.first(f"{TRANSCRIPTION}completed")
        assert completed is not None
        assert completed.event["item_id"] == user
        assert [event["item"]["role"] for event in added] == ["user", "assistant"]
        assert added[0]["item"]["id"] == user
        assert added[1]["previous_item_id"] == user
        answer = added[1]["item"]["id"]
        response = turn.replies[0].response_id
        for got in turn.events:
            assert got.event.get("response_id", response) == response
            if got.type in DELTAS:
                assert got.event["item_id"] == answer
        events = [got.event["event_id"] for got in turn.events]
        assert len(set(events)) == len(events)
        seen |= {user, answer}


@pytest.mark.parametrize("wire", FORMATS)
def test_the_times_of_a_turn_are_where_its_voice_is(
    wire: str, conversations: Conversations
) -> None:
    for clip, turn in zip(conversations.clips, conversations.turns[wire], strict=True):
        started = [g.event for g in turn.events if g.type == "input_audio_buffer.speech_started"]
        stopped = [g.event for g in turn.events if g.type == "input_audio_buffer.speech_stopped"]
        spoken_ms = clip.speech_end_ms - clip.speech_start_ms
        heard_ms = stopped[-1]["audio_end_ms"] - started[0]["audio_start_ms"]
        # Padding before (300 ms) and silence after belong to it: about a second, or as long as a
        # slow machine's transcript is waited for.
        longest_ms = spoken_ms + 300 + EVIDENCE_PATIENCE_MS + 200
        assert spoken_ms - 200 < heard_ms < longest_ms, turn.name


@pytest.mark.parametrize("wire", FORMATS)
def test_the_user_is_understood(wire: str, conversations: Conversations) -> None:
    said = [clip.transcript for clip in conversations.clips]
    heard = [turn.user_transcript for turn in conversations.turns[wire]]
    assert word_error_rate(said, heard) <= USER_WER, heard


@pytest.fixture(scope="module")
def heard_replies(conversations: Conversations) -> dict[str, list[str]]:
    """What the Transcriber hears in the audio of the replies, by format."""
    replies = {wire: conversations.replies(wire) for wire in FORMATS}
    sounds = {wire: [_at_16_khz(reply) for reply in replies[wire]] for wire in FORMATS}
    return asyncio.run(_transcribe(sounds))


@pytest.mark.parametrize("wire", FORMATS)
def test_what_is_heard_of_the_replies_is_what_their_transcripts_say(
    wire: str, conversations: Conversations, heard_replies: dict[str, list[str]]
) -> None:
    written = [reply.transcript for reply in conversations.replies(wire)]
    assert all(written)
    pairs = list(zip(written, heard_replies[wire], strict=True))
    # A long list of a small model, cut into windows, is misheard as a whole: it may not decide.
    assert median(word_error_rate([said], [heard]) for said, heard in pairs) <= REPLY_WER, pairs


def test_the_first_sound_is_sent_while_the_thinker_still_writes(
    conversations: Conversations,
) -> None:
    long = [
        reply
        for wire in FORMATS
        for reply in conversations.replies(wire)
        if sentences(reply.transcript) >= 2
    ]
    assert long, "no reply had two sentences"
    overlapping = [
        reply.timings_ms["first_audio_sent"] < reply.timings_ms["thinker_end"] for reply in long
    ]
    # Two sentences of two words each can be written before any sound is made.
    assert sum(overlapping) > len(long) / 2, [reply.timings_ms for reply in long]


def _reached_its_limit(reply: Reply) -> bool:
    details = {"type": "incomplete", "reason": "max_output_tokens"}
    return reply.status == "incomplete" and reply.status_details == details


def _at_16_khz(reply: Reply) -> NDArray[np.int16]:
    return np.asarray(soxr.resample(reply.audio, reply.rate_hz, INPUT_RATE_HZ), np.int16)


async def _transcribe(sounds: dict[str, list[NDArray[np.int16]]]) -> dict[str, list[str]]:
    engine = Engine(load_config())
    await engine.start(("transcriber",))
    try:
        texts: dict[str, list[str]] = {}
        for wire, recordings in sounds.items():
            texts[wire] = [
                await _transcribe_one(engine, f"{wire}-{index}", samples)
                for index, samples in enumerate(recordings)
            ]
        return texts
    finally:
        await engine.shutdown()


async def _transcribe_one(engine: Engine, name: str, samples: NDArray[np.int16]) -> str:
    text = ""
    for first in range(0, len(samples), WINDOW_SAMPLES):
        start = Start(f"{name}-{first}", Plan.TRANSCRIBE)
        async for message in engine.submit(start, samples[first : first + WINDOW_SAMPLES]):
            text += message.text if isinstance(message, TextDelta) else ""
    return " ".join(text.split())
