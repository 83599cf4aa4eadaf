"""The decision of semantic_vad, as a table and through a Session."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pair import Pair

from pipeline.messages import Failed
from realtime.commands import Abort, Judge, Release, StartReply, Transcribe
from realtime.turn_end import (
    EVIDENCE_PATIENCE_MS,
    PREPARATION_PATIENCE_MS,
    Completeness,
    Evidence,
    completeness,
    required_silence_ms,
    turn_has_ended,
)

FINISHED, LIKELY, UNCLEAR, UNFINISHED = Completeness


# -- the text --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the weather like?", FINISHED),
        ("Seven of clubs.", FINISHED),
        ("Yes.", FINISHED),
        ("Stop!", FINISHED),
        ('He said "no."', FINISHED),
        ("What are you looking at?", FINISHED),
        ("And who is it for?", FINISHED),
        ("seven of clubs", UNCLEAR),
        ("And Mr. John Dashwood", UNCLEAR),
        ("He was not.", FINISHED),
        ("I think it will be.", UNCLEAR),
        ("I went to the", UNFINISHED),
        ("I went to the.", UNFINISHED),
        ("I would like to", UNFINISHED),
        ("I was thinking that", UNCLEAR),
        ("My number is five, two,", UNFINISHED),
        ("So I was wondering...", UNFINISHED),
        ("Well, um.", UNFINISHED),
        ("She lives in", UNFINISHED),
        ("because", UNFINISHED),
        ("", UNCLEAR),
        ("...", UNCLEAR),
        (None, UNCLEAR),
    ],
)
def test_what_a_text_says_of_its_end(text: str | None, expected: Completeness) -> None:
    assert completeness(text) is expected


@pytest.mark.parametrize(
    ("text", "stop_prob", "expected"),
    [
        ("Go forward 10 meters.", 0.82, FINISHED),
        ("7 of clubs", 0.46, LIKELY),
        ("He invited", 0.2, UNCLEAR),
        ("And Mr. John", 0.01, UNFINISHED),
        ("Who is it", 0.01, UNFINISHED),
        ("Who is it?", 0.3, FINISHED),
        ("to the", 0.9, UNFINISHED),
    ],
)
def test_how_probable_a_full_stop_was_says_more_than_whether_it_is_there(
    text: str, stop_prob: float, expected: Completeness
) -> None:
    assert completeness(text, stop_prob) is expected


# -- the decision ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sound", "required_ms"),
    [
        ("All done.", 0.9, 200),
        ("All done.", 0.1, 450),
        ("all done", 0.9, 800),
        ("all done", 0.1, 1000),
        ("all of the", 0.9, 1000),
        ("all of the", 0.1, 4000),
        ("All done.", None, 200),
        ("all of the", None, 1000),
        (None, 0.9, 800),
        (None, None, 1000),
    ],
)
def test_patience_by_what_text_and_sound_say(
    text: str | None, sound: float | None, required_ms: int
) -> None:
    evidence = Evidence(0, text=text, sound=sound)
    assert required_silence_ms("auto", evidence) == required_ms
    assert not turn_has_ended("auto", Evidence(required_ms - 1, text=text, sound=sound))
    assert turn_has_ended("auto", Evidence(required_ms, text=text, sound=sound))


@pytest.mark.parametrize(
    ("eagerness", "limit_ms"), [("low", 8000), ("medium", 4000), ("high", 2000)]
)
def test_eagerness_sets_the_longest_wait(eagerness: str, limit_ms: int) -> None:
    waits = {
        required_silence_ms(eagerness, Evidence(0, text=text, sound=sound))  # type: ignore[arg-type]
        for text, sound in itertools.product(["Done.", "done", "to the"], [0.1, 0.9, None])
    }
    assert max(waits) == limit_ms
    assert sorted(waits)[-2] <= 1500


def test_more_eagerness_never_waits_longer() -> None:
    for text, sound in itertools.product(["Done.", "done", "to the", None], [0.1, 0.9, None]):
        evidence = Evidence(0, text=text, sound=sound)
        low, medium, high = (required_silence_ms(e, evidence) for e in ("low", "medium", "high"))
        assert low >= medium >= high


def test_evidence_on_its_way_is_waited_for_but_not_for_ever() -> None:
    assert not turn_has_ended("auto", Evidence(EVIDENCE_PATIENCE_MS - 1, sound=0.9, pending=True))
    assert turn_has_ended("auto", Evidence(EVIDENCE_PATIENCE_MS, sound=0.9, pending=True))


def test_nothing_is_gained_by_ending_before_the_reply_can_be_heard() -> None:
    waiting = Evidence(400, text="All done.", sound=0.9, prepared=False)
    assert not turn_has_ended("auto", waiting)
    late = Evidence(PREPARATION_PATIENCE_MS, text="All done.", sound=0.9, prepared=False)
    assert turn_has_ended("auto", late)


evidences = st.builds(
    Evidence,
    silence_ms=st.integers(0, 10_000),
    text=st.sampled_from([None, "", "Done.", "done", "to the"]),
    stop_prob=st.one_of(st.none(), st.floats(0, 1)),
    sound=st.one_of(st.none(), st.floats(0, 1)),
    pending=st.booleans(),
    prepared=st.booleans(),
)


@given(evidences, st.integers(1, 5000), st.sampled_from(["low", "medium", "high", "auto"]))
def test_a_longer_silence_never_takes_an_end_back(
    evidence: Evidence, more_ms: int, eagerness: str
) -> None:
    longer = Evidence(
        evidence.silence_ms + more_ms,
        evidence.text,
        evidence.stop_prob,
        evidence.sound,
        evidence.pending,
        evidence.prepared,
    )
    before, after = (turn_has_ended(eagerness, e) for e in (evidence, longer))  # type: ignore[arg-type]
    assert after or not before
    assert turn_has_ended(eagerness, Evidence(8000, evidence.text, sound=evidence.sound))  # type: ignore[arg-type]


# -- through a Session -----------------------------------------------------------------------------


def speaking(eagerness: str = "auto", **detection: object) -> Pair:
    """A user who has just fallen silent, for 96 ms."""
    pair = Pair()
    turn_detection = {"type": "semantic_vad", "eagerness": eagerness, **detection}
    pair.update(audio={"input": {"turn_detection": turn_detection}})
    pair.hear(0.0, 640)
    pair.hear(0.9, 640)
    pair.hear(0.0, 96)
    pair.turn_page()
    return pair


def stopped(pair: Pair) -> bool:
    return bool(pair.of("input_audio_buffer.speech_stopped"))


def test_a_finished_sentence_is_answered_after_two_hundred_milliseconds() -> None:
    pair = speaking()
    pair.transcribe("What time is it?")
    pair.prepare()
    assert not stopped(pair)
    pair.hear(0.0, 128)
    assert stopped(pair)
    assert pair.last(Release).request_id == pair.last(StartReply).start.request_id
    assert pair.all(Judge) == []  # it leaves nothing open


def test_the_sound_is_asked_for_once_the_words_leave_it_open() -> None:
    pair = speaking()
    assert pair.all(Judge) == []
    pair.transcribe("seven of clubs")
    (asked,) = pair.all(Judge)
    assert asked.pcm == pair.last(Transcribe).pcm
    pair.judge(0.9)
    pair.hear(0.0, 480)
    assert len(pair.all(Judge)) == 1


def test_nothing_that_was_said_needs_no_judgement() -> None:
    pair = speaking()
    pair.transcribe("")
    pair.hear(0.0, 640)
    assert pair.all(Judge) == []


def test_the_turn_ends_the_moment_the_last_witness_speaks() -> None:
    pair = speaking()
    pair.transcribe("seven of clubs")
    pair.prepare()
    pair.hear(0.0, 800)
    assert not stopped(pair)
    pair.judge(0.95)
    assert stopped(pair)


def test_the_turn_ends_the_moment_the_reply_can_be_heard() -> None:
    pair = speaking()
    pair.transcribe("What time is it?")
    pair.hear(0.0, 320)
    assert not stopped(pair)
    pair.prepare()
    assert stopped(pair)


def test_an_unfinished_sentence_is_waited_for_and_then_answered() -> None:
    pair = speaking("high")
    pair.transcribe("I would like to")
    pair.judge(0.1)
    pair.prepare()
    for _ in range(2):  # judged again as the silence grows
        pair.hear(0.0, 512)
        pair.judge(0.1)
    assert len(pair.all(Judge)) == 3
    pair.hear(0.0, 640)
    assert not stopped(pair)
    pair.hear(0.0, 640)
    assert stopped(pair)


def test_a_pause_that_sounds_finished_only_later_ends_the_turn_then() -> None:
    pair = speaking()
    pair.transcribe("seven of clubs")
    pair.judge(0.1)
    pair.prepare()
    pair.hear(0.0, 320)
    pair.judge(0.9)
    pair.hear(0.0, 320)
    assert not stopped(pair)
    pair.hear(0.0, 96)
    assert stopped(pair)


def test_a_user_who_goes_on_voids_what_was_found_out() -> None:
    pair = speaking()
    pair.transcribe("seven of clubs")
    stale = pair.last(Judge).start.request_id
    pair.hear(0.9, 320)
    assert stale in {command.request_id for command in pair.all(Abort)}
    pair.judge(0.99)
    pair.hear(0.0, 160)
    pair.transcribe("What time is it in the")
    pair.judge(0.1)
    pair.prepare()
    pair.hear(0.0, 1280)
    assert not stopped(pair)


def test_without_a_turn_detector_the_text_decides() -> None:
    pair = speaking()
    pair.transcribe("seven of clubs")
    pair.judge(Failed("worker_died", "gone"))
    pair.prepare()
    pair.hear(0.0, 832)
    assert not stopped(pair)
    pair.hear(0.0, 96)
    assert stopped(pair)


def test_a_transcriber_that_is_late_does_not_keep_the_turn_open() -> None:
    pair = speaking()
    pair.hear(0.0, EVIDENCE_PATIENCE_MS)
    assert stopped(pair)
    pair.transcribe("Hello.")
    assert not pair.last(StartReply).start.speculative


def test_a_failed_transcription_of_a_guess_ends_by_silence() -> None:
    pair = speaking()
    pair.transcribe(failure=Failed("worker_died", "gone"))
    pair.hear(0.0, 800)
    assert not stopped(pair)
    pair.hear(0.0, 128)
    assert stopped(pair)
    pair.check()
