"""Turns read from the events of a session."""

from typing import Any

import numpy as np

from bench.turn import Received, milliseconds, read_turn, sentences


def got(at_s: float, event_type: str, **fields: Any) -> Received:
    """An event that came at this time."""
    return Received(at_s, {"type": event_type, **fields})


def audio(at_s: float, response_id: str, level: int = 8000) -> Received:
    """100 ms of audio at 1 kHz."""
    event = {"type": "response.output_audio.delta", "response_id": response_id}
    return Received(at_s, event, np.full(100, level, np.int16))


def done(at_s: float, response_id: str, status: str = "completed", **fields: Any) -> Received:
    """The end of a response."""
    return got(at_s, "response.done", response={"id": response_id, "status": status, **fields})


def created(at_s: float, response_id: str) -> Received:
    """The start of a response."""
    return got(at_s, "response.created", response={"id": response_id})


def test_a_turn_gathers_text_audio_times_and_timings_of_its_reply() -> None:
    said = "response.output_audio_transcript.delta"
    turn = read_turn(
        "clip",
        1.0,
        [
            created(1.1, "r"),
            got(1.2, said, response_id="r", delta="Good "),
            got(1.3, said, response_id="r", delta="day."),
            audio(1.4, "r", level=0),
            audio(1.5, "r"),
            done(1.6, "r", sori={"timings_ms": {"first_text": 90}}),
        ],
        1000,
    )
    reply = turn.reply
    assert reply is not None
    assert reply.transcript == "Good day."
    assert (reply.first_text_at_s, reply.first_audio_at_s, reply.audible_at_s) == (1.2, 1.4, 1.5)
    assert reply.done_at_s == 1.6
    assert reply.timings_ms == {"first_text": 90}
    assert len(reply.audio) == 200
    assert not turn.cut_in


def test_a_cancelled_reply_does_not_stand_and_the_one_after_it_does() -> None:
    events = [created(1, "a"), done(2, "a", "cancelled"), created(3, "b"), done(4, "b")]
    turn = read_turn("clip", 0.0, events, 1000)
    assert turn.reply is not None
    assert turn.reply.response_id == "b"
    assert [reply.status for reply in turn.replies] == ["cancelled", "completed"]


def test_a_reply_that_sounds_before_the_user_has_ended_cuts_in() -> None:
    turn = read_turn("clip", 5.0, [created(1, "a"), audio(2, "a"), done(3, "a")], 1000)
    assert turn.cut_in


def test_a_failed_reply_tells_its_code_and_message() -> None:
    details = {"type": "failed", "error": {"code": "worker_died", "message": "gone"}}
    turn = read_turn(
        "clip", 0.0, [created(1, "a"), done(2, "a", "failed", status_details=details)], 1000
    )
    assert turn.reply is not None
    assert turn.reply.failure == "failed: worker_died: gone"


def test_transcripts_of_one_turn_cut_in_two_are_joined_and_errors_are_kept() -> None:
    completed = "conversation.item.input_audio_transcription.completed"
    turn = read_turn(
        "clip",
        0.0,
        [
            got(1, completed, item_id="a", transcript=" ten of "),
            got(2, completed, item_id="b", transcript="clubs"),
            got(3, "error", error={"code": "invalid_value"}),
        ],
        1000,
    )
    assert turn.user_transcript == "ten of clubs"
    assert turn.errors == [{"code": "invalid_value"}]
    assert turn.reply is None


def test_sentences_are_counted_by_marks_that_end_a_word() -> None:
    assert sentences("It is 3.5 degrees. Cold!") == 2
    assert sentences("no end") == 0


def test_a_moment_that_never_came_has_no_distance() -> None:
    assert milliseconds(1.0, None) is None
    assert milliseconds(1.0, 1.5) == 500
