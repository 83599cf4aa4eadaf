"""Items as a client gets them again: whole, with their sound, within limits."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from pair import Event, Pair

from pipeline.messages import Alignment, End, TextDelta
from realtime.commands import StartReply


def retrieve(pair: Pair, item_id: str) -> Event:
    (answer,) = pair.send({"type": "conversation.item.retrieve", "item_id": item_id})
    assert answer["type"] == "conversation.item.retrieved"
    item: Event = answer["item"]
    return item


def audio_of(item: Event) -> bytes:
    return base64.b64decode(item["content"][0]["audio"])


def speak(pair: Pair, *payloads: bytes, text: str = "One two") -> str:
    """A reply of these payloads, each of them 200 ms; returns its item's id."""
    start = pair.last(StartReply).start
    pair.reply(TextDelta(text), Alignment(((0, 3, 4_800), (4, 7, 9_600))))
    for payload in payloads:
        pair.session.receive_reply_audio(start.request_id, start.generation, [payload], 4_800)
    pair.reply(End())
    item_id: str = pair.of("response.output_item.done")[-1]["item"]["id"]
    return item_id


@pytest.mark.parametrize(
    ("encoding", "nbytes"),
    [
        ({"type": "audio/pcm", "rate": 24_000}, 48_000),
        ({"type": "audio/pcm", "rate": 16_000}, 32_000),
        ({"type": "audio/pcmu"}, 8_000),
        ({"type": "audio/pcma"}, 8_000),
    ],
)
def test_what_the_user_said_comes_back_in_the_sessions_format(
    encoding: dict[str, Any], nbytes: int
) -> None:
    pair = Pair()
    pair.update(audio={"input": {"format": encoding, "turn_detection": None}})
    pair.append(16_000)
    pair.send({"type": "input_audio_buffer.commit"})
    item = retrieve(pair, pair.of("input_audio_buffer.committed")[0]["item_id"])

    assert item["content"][0]["transcript"] is None
    assert len(audio_of(item)) == nbytes


def test_pcm_comes_back_as_it_was_heard() -> None:
    pair = Pair()
    pair.update(audio={"input": {"turn_detection": None}})
    pair.append(16_000)  # a steady 7
    pair.send({"type": "input_audio_buffer.commit"})
    item = retrieve(pair, pair.of("input_audio_buffer.committed")[0]["item_id"])

    samples = np.frombuffer(audio_of(item), "<i2")
    assert set(samples[2_000:-2_000]) == {7}


def test_a_reply_comes_back_as_it_was_sent_and_events_have_no_audio() -> None:
    pair = Pair()
    pair.say("count")
    item_id = speak(pair, b"\1\2" * 4_800, b"\3\4" * 4_800)

    item = retrieve(pair, item_id)
    assert audio_of(item) == b"\1\2" * 4_800 + b"\3\4" * 4_800
    assert item["content"][0]["transcript"] == "One two"
    done = pair.of("conversation.item.done")[-1]["item"]["content"][0]
    assert "audio" not in done
    assert "audio" not in pair.of("response.done")[-1]["response"]["output"][0]["content"][0]


def test_what_the_client_has_cut_stays_cut() -> None:
    pair = Pair()
    pair.say("count")
    item_id = speak(pair, b"\1\2" * 4_800, b"\3\4" * 4_800)
    pair.send(
        {
            "type": "conversation.item.truncate",
            "item_id": item_id,
            "content_index": 0,
            "audio_end_ms": 300,
        }
    )
    item = retrieve(pair, item_id)

    assert item["content"][0]["transcript"] == "One"
    assert audio_of(item) == b"\1\2" * 4_800 + b"\3\4" * 2_400


def test_a_long_item_keeps_its_beginning_and_a_long_session_its_last_items() -> None:
    pair = Pair(max_item_audio_bytes=1_001, max_kept_audio_bytes=2_500)
    pair.update(output_modalities=["audio"], audio={"input": {"turn_detection": None}})
    ids = []
    for _ in range(4):
        pair.send({"type": "response.create"})
        ids.append(speak(pair, b"\1\2" * 4_800))

    assert [len(audio_of(retrieve(pair, item_id))) for item_id in ids[2:]] == [1_000, 1_000]
    for item_id in ids[:2]:
        assert "audio" not in retrieve(pair, item_id)["content"][0]


def test_a_long_turn_comes_back_as_far_as_the_limit_allows() -> None:
    pair = Pair(max_item_audio_bytes=48_000)
    pair.update(audio={"input": {"turn_detection": None}})
    pair.append(40_000)  # of 2.5 s at 16 kHz, 1.5 are kept and 1 fits at 24 kHz
    pair.send({"type": "input_audio_buffer.commit"})
    item = retrieve(pair, pair.of("input_audio_buffer.committed")[0]["item_id"])
    assert len(audio_of(item)) == 48_000


def test_opus_and_deleted_items_are_not_kept() -> None:
    pair = Pair()
    pair.update(audio={"output": {"format": {"type": "audio/opus"}}})
    pair.say("count")
    assert "audio" not in retrieve(pair, speak(pair, b"packet"))["content"][0]

    item = {
        "id": "mine",
        "type": "message",
        "role": "user",
        "content": [{"type": "input_audio", "audio": base64.b64encode(b"\1\2" * 99).decode()}],
    }
    pair.send({"type": "conversation.item.create", "item": item})
    assert audio_of(retrieve(pair, "mine")) == b"\1\2" * 99
    pair.send({"type": "conversation.item.delete", "item_id": "mine"})
    pair.send(
        {
            "type": "conversation.item.create",
            "item": {**item, "content": [{"type": "input_audio", "transcript": "hello"}]},
        }
    )
    assert "audio" not in retrieve(pair, "mine")["content"][0]
