"""What the model remembers of a reply that was interrupted: what the listener can have heard."""

from __future__ import annotations

from typing import Any

import pytest
from pair import Event, Pair

from pipeline.messages import Alignment, End, TextDelta
from realtime.commands import Pause, Resume, StartReply

SPANS = ((0, 3, 8_000), (4, 7, 16_000), (8, 13, 24_000))


def counting(**reply: Any) -> Pair:
    """A pair whose reply is sent to its end: "One two three" in one second."""
    pair = Pair()
    if reply:
        pair.update(audio={"output": reply})
    pair.say("count")
    pair.reply(TextDelta("One two three"), Alignment(SPANS), 24_000, End())
    return pair


def play(pair: Pair, samples: int) -> None:
    pair.session.receive_playback(pair.last(StartReply).start.request_id, samples)


def truncate(pair: Pair, audio_end_ms: int) -> list[Event]:
    item_id = pair.of("response.output_item.added")[-1]["item"]["id"]
    return pair.send(
        {
            "type": "conversation.item.truncate",
            "item_id": item_id,
            "content_index": 0,
            "audio_end_ms": audio_end_ms,
        }
    )


def remembered(pair: Pair) -> list[str]:
    """What the assistant has said, in the next prompt."""
    return [item.text for item in pair.last(StartReply).start.items if item.role == "assistant"]


def test_a_reply_that_is_over_but_not_heard_is_cut_where_the_listener_was() -> None:
    pair = counting()
    play(pair, 17_000)
    pair.say("stop")

    assert remembered(pair) == ["One two"]
    assert pair.of("conversation.item.truncated") == []
    shown = pair.send(
        {
            "type": "conversation.item.retrieve",
            "item_id": pair.of("response.output_item.added")[0]["item"]["id"],
        }
    )
    assert shown[0]["item"]["content"][0]["transcript"] == "One two three"
    pair.check()


def test_a_reply_that_was_heard_is_remembered_whole() -> None:
    pair = counting()
    play(pair, 24_000)
    pair.say("thanks")

    assert remembered(pair) == ["One two three"]


def test_a_running_reply_is_cut_where_the_listener_was_not_where_the_sender_is() -> None:
    pair = Pair()
    pair.say("count")
    pair.reply(TextDelta("One two three four"), Alignment(SPANS), 24_000)
    play(pair, 9_000)
    pair.say("stop")

    assert remembered(pair) == ["One"]


def test_what_was_not_heard_at_all_is_not_in_the_prompt() -> None:
    pair = counting()
    play(pair, 0)
    pair.say("stop")

    assert [item.role for item in pair.last(StartReply).start.items] == ["system", "user", "user"]


def test_the_clients_word_counts_more_before_and_after() -> None:
    early = counting()
    assert truncate(early, 340)[0]["audio_end_ms"] == 340
    play(early, 24_000)
    early.say("stop")
    assert remembered(early) == ["One"]

    late = counting()
    play(late, 9_000)
    late.hear(0.9, 640)
    assert truncate(late, 700)[0]["audio_end_ms"] == 700
    late.hear(0.0, 640)
    late.transcribe("stop")
    assert remembered(late) == ["One two"]


def test_a_truncate_is_clamped_and_may_be_zero_or_come_before_the_end() -> None:
    pair = counting()
    assert truncate(pair, 60_000)[0]["audio_end_ms"] == 1_000
    pair.say("go on")
    assert remembered(pair) == ["One two three"]

    pair = Pair()
    pair.say("count")
    pair.reply(TextDelta("One two three"))
    assert truncate(pair, 0)[0]["audio_end_ms"] == 0
    pair.reply(Alignment(SPANS), 24_000, End())
    pair.say("stop")
    assert remembered(pair) == []


def test_what_was_cut_off_does_not_come_back_with_a_later_truncate() -> None:
    pair = counting()
    ends = [truncate(pair, end_ms)[0]["audio_end_ms"] for end_ms in (700, 900, 340, 60_000)]
    assert ends == [700, 700, 340, 340]
    pair.say("stop")
    assert remembered(pair) == ["One"]


def test_only_the_last_reply_is_cut() -> None:
    pair = counting()
    old = pair.last(StartReply).start.request_id
    play(pair, 24_000)
    pair.say("again")
    pair.reply(TextDelta("Four"), Alignment(((0, 4, 12_000),)), 12_000, End())
    pair.session.receive_playback(old, 0)
    play(pair, 12_000)
    pair.say("thanks")

    assert remembered(pair) == ["One two three", "Four"]


def test_a_client_that_cancels_has_stopped_playing() -> None:
    pair = Pair()
    pair.say("count")
    pair.reply(TextDelta("One two three four"), Alignment(SPANS), 24_000)
    play(pair, 9_000)
    pair.send({"type": "response.cancel"})
    pair.say("go on")

    assert remembered(pair) == ["One"]
    assert pair.of("conversation.item.truncated") == []
    pair.check()


def test_a_cancelled_reply_is_as_long_as_its_client_says() -> None:
    pair = Pair()
    pair.say("count")
    pair.reply(TextDelta("One two three four"), Alignment(SPANS), 24_000)
    play(pair, 9_000)
    pair.send({"type": "response.cancel"})
    assert truncate(pair, 700)[0]["audio_end_ms"] == 700
    pair.say("go on")

    assert remembered(pair) == ["One two"]


def test_a_cancelled_response_beside_the_conversation_cuts_nothing() -> None:
    pair = counting()
    play(pair, 9_000)
    spoken = pair.last(StartReply).start.request_id
    pair.send({"type": "response.create", "response": {"conversation": "none"}})
    beside = pair.of("response.created")[-1]["response"]["id"]
    pair.send({"type": "response.cancel", "response_id": beside})
    pair.session.receive_playback(spoken, 24_000)
    pair.say("thanks")

    assert remembered(pair) == ["One two three"]


@pytest.mark.parametrize("named", [False, True])
def test_a_cancel_after_the_end_cuts_what_was_still_to_be_heard(named: bool) -> None:
    pair = counting()
    play(pair, 17_000)
    spoken = pair.last(StartReply).start.request_id
    (answer,) = pair.send({"type": "response.cancel", **({"response_id": spoken} if named else {})})
    assert answer["error"]["code"] == "response_cancel_not_active"
    pair.session.receive_playback(spoken, 24_000)
    pair.say("go on")

    assert remembered(pair) == ["One two"]
    assert pair.of("conversation.item.truncated") == []


def test_a_cancel_of_another_response_cuts_nothing() -> None:
    pair = counting()
    play(pair, 9_000)
    pair.send({"type": "response.cancel", "response_id": "resp_other"})
    play(pair, 24_000)
    pair.say("go on")

    assert remembered(pair) == ["One two three"]


def test_without_interruption_nothing_is_cut() -> None:
    pair = Pair()
    pair.update(
        audio={"input": {"turn_detection": {"type": "server_vad", "interrupt_response": False}}}
    )
    pair.say("count")
    pair.reply(TextDelta("One two three"), Alignment(SPANS), 24_000, End())
    play(pair, 9_000)
    pair.say("and")

    assert remembered(pair) == ["One two three"]


def test_a_cough_pauses_the_playback_that_is_left_and_costs_nothing() -> None:
    pair = counting(keeps_buffer=True)
    request_id = pair.last(StartReply).start.request_id
    play(pair, 9_000)
    pair.hear(0.9, 192)
    assert pair.last(Pause).request_id == request_id
    pair.hear(0.0, 160)
    pair.transcribe("")
    assert pair.last(Resume).request_id == request_id
    assert pair.of("sori.speech_dismissed")
    play(pair, 24_000)
    pair.say("go on")

    assert remembered(pair) == ["One two three"]
