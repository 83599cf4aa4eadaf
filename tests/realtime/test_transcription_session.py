"""Transcription sessions without a socket: what is heard, and that nothing is ever answered."""

from __future__ import annotations

from typing import Any

import pytest
from pair import Pair

from pipeline.messages import End
from realtime.commands import StartReply, Transcribe
from realtime.protocol.config import SessionConfig
from realtime.transcription_session import without_answers

TRANSCRIPT = "conversation.item.input_audio_transcription.completed"


def transcribing() -> Pair:
    return Pair(transcribes=True, config=without_answers(SessionConfig()))


def change(pair: Pair, **session: Any) -> dict[str, Any]:
    (answer,) = pair.send({"type": "session.update", "event_id": "mine", "session": session})
    return answer


def test_a_turn_is_written_down_without_being_asked_for_and_not_answered() -> None:
    pair = transcribing()
    pair.say("good morning")

    assert [event["transcript"] for event in pair.of(TRANSCRIPT)] == ["good morning"]
    assert not [event for event in pair.log if event["type"].startswith("response.")]
    assert any(isinstance(command, Transcribe) for command in pair.commands)
    assert not any(isinstance(command, StartReply) for command in pair.commands)


def test_an_update_changes_what_it_has_and_keeps_the_rest() -> None:
    pair = transcribing()
    wish = {"model": "whisper-1", "language": "en"}
    detection = {"type": "server_vad", "silence_duration_ms": 300}
    change(pair, type="transcription", audio={"input": {"transcription": wish}})
    answer = change(pair, type="transcription", audio={"input": {"turn_detection": detection}})

    heard = answer["session"]["audio"]["input"]
    assert (heard["transcription"]["language"], heard["transcription"]["model"]) == (
        "en",
        "whisper-1",
    )
    assert heard["turn_detection"]["silence_duration_ms"] == 300
    # A client that asks for answers does not get them.
    detection["create_response"] = True
    answer = change(pair, type="transcription", audio={"input": {"turn_detection": detection}})
    assert answer["session"]["audio"]["input"]["turn_detection"]["create_response"] is False


def test_a_session_becomes_one_as_long_as_it_has_no_items() -> None:
    pair = Pair()
    assert change(pair, type="transcription")["session"]["type"] == "transcription"

    late = Pair()
    late.write("Hello.")
    error = change(late, type="transcription")["error"]
    assert (error["param"], error["event_id"]) == ("session.type", "mine")
    assert late.session.effective().type == "realtime"


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"type": "realtime"}, "session.type"),
        ({"audio": {}}, "session.type"),
        ({"type": "transcription", "voice": "ash"}, "session.voice"),
        ({"type": "transcription", "audio": {"output": {}}}, "session.audio.output"),
        ({"type": "transcription", "audio": 5}, "session.audio"),
    ],
)
def test_what_does_not_belong_is_refused_and_changes_nothing(
    session: dict[str, Any], param: str
) -> None:
    pair = transcribing()
    before = pair.session.effective()
    error = change(pair, **session)["error"]

    assert (error["param"], error["event_id"]) == (param, "mine")
    assert pair.session.effective() == before


def test_a_silence_is_not_answered_either() -> None:
    detection = {"type": "server_vad", "idle_timeout_ms": 5_000}
    answer = change(
        transcribing(), type="transcription", audio={"input": {"turn_detection": detection}}
    )
    assert answer["session"]["audio"]["input"]["turn_detection"]["idle_timeout_ms"] is None


@pytest.mark.parametrize("beside", [{}, {"conversation": "none"}])
def test_a_session_that_is_answering_does_not_become_one(beside: dict[str, Any]) -> None:
    pair = Pair()
    pair.send({"type": "response.create", "response": {**beside, "input": []}})
    assert change(pair, type="transcription")["error"]["param"] == "session.type"
    pair.reply(End())
    assert change(pair, type="transcription")["session"]["type"] == "transcription"


@pytest.mark.parametrize("kind", ["response.create", "response.cancel"])
def test_a_response_is_refused(kind: str) -> None:
    (answer,) = transcribing().send({"type": kind, "event_id": "mine"})
    assert (answer["error"]["param"], answer["error"]["event_id"]) == ("type", "mine")
