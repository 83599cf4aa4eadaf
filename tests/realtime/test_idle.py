"""`idle_timeout_ms`: a silence after an answer that is answered itself."""

from __future__ import annotations

from typing import Any

from pair import Pair

from pipeline.messages import End, TextDelta
from realtime.commands import StartReply
from realtime.idle import IdleTimer

TRIGGERED = "input_audio_buffer.timeout_triggered"


def talking(timeout_ms: int | None = 5000, kind: str = "server_vad") -> Pair:
    pair = Pair()
    detection: dict[str, Any] = {"type": kind}
    if timeout_ms is not None:
        detection["idle_timeout_ms"] = timeout_ms
    pair.update(audio={"input": {"turn_detection": detection}})
    pair.say("Hello.")
    return pair


def test_silence_after_an_answer_is_answered_once() -> None:
    pair = talking()
    pair.answer("Hi.", 0)
    pair.turn_page()
    pair.hear(0.0, 4992)
    assert pair.log == []
    pair.hear(0.0, 64)
    kinds = [event["type"] for event in pair.log]
    assert kinds == [
        TRIGGERED,
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
    ]
    assert len({pair.log[0]["item_id"], pair.log[1]["item_id"], pair.log[2]["item"]["id"]}) == 1
    assert 4900 <= pair.log[0]["audio_end_ms"] - pair.log[0]["audio_start_ms"] <= 5100
    pair.transcribe()
    assert pair.last(StartReply)
    pair.answer("Are you there?", 0)
    pair.hear(0.0, 4800)
    assert len(pair.of(TRIGGERED)) == 1
    pair.check()


def test_the_answer_is_heard_first() -> None:
    pair = talking()
    pair.reply(TextDelta("Hi."), 24_000)
    request_id = pair.last(StartReply).start.request_id
    pair.session.receive_playback(request_id, 1000)
    pair.reply(End())
    pair.turn_page()
    pair.hear(0.0, 6400)
    assert pair.log == []
    pair.session.receive_playback(request_id, 24_000)
    pair.hear(0.0, 4960)
    assert pair.log == []
    pair.hear(0.0, 128)
    assert pair.log[0]["type"] == TRIGGERED


def test_speech_stops_the_clock() -> None:
    pair = talking()
    pair.answer("Hi.", 0)
    pair.hear(0.0, 4000)
    pair.say("One more thing.")
    pair.answer("Yes?", 0)
    pair.hear(0.0, 4800)
    assert pair.of(TRIGGERED) == []
    pair.hear(0.0, 320)
    assert len(pair.of(TRIGGERED)) == 1


def test_nothing_happens_without_it_or_before_any_answer() -> None:
    pair = talking(None)
    pair.answer("Hi.", 0)
    pair.hear(0.0, 32_000)
    assert pair.of(TRIGGERED) == []
    fresh = Pair()
    detection = {"type": "server_vad", "idle_timeout_ms": 5000}
    fresh.update(audio={"input": {"turn_detection": detection}})
    fresh.hear(0.0, 32_000)
    assert fresh.of(TRIGGERED) == []


def test_the_timer_alone() -> None:
    timer = IdleTimer()
    assert timer.hear(0, busy=False, limit=10) is None
    timer.arm()
    assert timer.hear(5, busy=True, limit=10) is None
    assert timer.hear(7, busy=False, limit=10) is None
    assert timer.hear(16, busy=False, limit=10) is None
    assert timer.hear(17, busy=False, limit=10) == 7
    assert timer.hear(99, busy=False, limit=10) is None
