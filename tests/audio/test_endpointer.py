"""The endpointer: where turns start and stop, in samples, for made-up probabilities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audio.endpointer import (
    Endpointer,
    EndpointerSettings,
    EndpointerState,
    NoTurnOpen,
    SpeechEvent,
    SpeechStarted,
    SpeechStopped,
)

W = 512  # a window, 32 ms
PADDING = 4_800  # 300 ms
SIXTEEN = [0.0] * 16  # the windows of silence that make up 500 ms


DEFAULT = EndpointerSettings()


class Feed:
    """Pushes windows one after the other and keeps what came of it."""

    def __init__(self, settings: EndpointerSettings = DEFAULT) -> None:
        self.endpointer = Endpointer(settings)
        self.end_sample = 0

    def push(self, *probabilities: float) -> list[SpeechEvent]:
        events = []
        for probability in probabilities:
            self.end_sample += W
            event = self.endpointer.push(probability, self.end_sample)
            if event is not None:
                events.append(event)
        return events


def test_a_turn_is_padded_in_front_and_includes_its_silence() -> None:
    feed = Feed()
    assert feed.push(*[0.1] * 20, 0.9) == []
    assert feed.push(0.9) == [SpeechStarted(20 * W - PADDING)]
    assert feed.push(*[0.9] * 10, *SIXTEEN[1:]) == []
    assert feed.push(0.0) == [SpeechStopped(48 * W)]
    assert feed.endpointer.state is EndpointerState.SILENCE


def test_padding_does_not_reach_back_before_the_first_sample() -> None:
    assert Feed().push(0.9, 0.9) == [SpeechStarted(0)]


def test_a_turn_never_overlaps_the_one_before() -> None:
    feed = Feed()
    feed.push(*[0.9] * 5, *SIXTEEN)
    assert feed.push(0.0, 0.9, 0.9) == [SpeechStarted(21 * W)]


def test_a_click_of_one_window_opens_no_turn() -> None:
    feed = Feed()
    assert feed.push(0.0, 0.95, 0.1, 0.0, 0.95, 0.0, 0.0) == []
    assert feed.endpointer.state is EndpointerState.SILENCE


def test_with_no_minimum_one_window_opens_a_turn() -> None:
    assert Feed(EndpointerSettings(min_speech_ms=0)).push(0.9) == [SpeechStarted(0)]


def test_a_longer_minimum_needs_more_windows() -> None:
    feed = Feed(EndpointerSettings(min_speech_ms=65))
    assert feed.push(0.9, 0.9) == []
    assert feed.push(0.9) == [SpeechStarted(0)]


def test_an_undecided_window_neither_counts_nor_breaks_off_an_onset() -> None:
    feed = Feed(EndpointerSettings(prefix_padding_ms=0))
    assert feed.push(0.0, 0.6, 0.4) == []
    assert feed.push(0.6) == [SpeechStarted(W)]


def test_an_onset_that_stays_undecided_is_given_up() -> None:
    feed = Feed(EndpointerSettings(prefix_padding_ms=0))
    assert feed.push(0.6, 0.4, 0.4, 0.4) == []
    assert feed.push(0.6, 0.6) == [SpeechStarted(4 * W)]


def test_speech_goes_on_between_the_thresholds() -> None:
    feed = Feed()
    assert feed.push(0.9, 0.9, *[0.36] * 100) == [SpeechStarted(0)]
    assert feed.endpointer.silence_samples == 0
    feed.push(0.34)
    assert feed.endpointer.silence_samples == W
    assert feed.endpointer.state is EndpointerState.PAUSE


def test_a_pause_is_ended_only_by_the_upper_threshold() -> None:
    feed = Feed()
    feed.push(0.9, 0.9, 0.1, 0.4, 0.4)
    assert feed.endpointer.silence_samples == 3 * W
    feed.push(0.5)
    assert feed.endpointer.silence_samples == 0
    assert feed.push(*SIXTEEN[1:]) == []
    assert feed.push(0.4) == [SpeechStopped(feed.end_sample)]


def test_a_short_pause_does_not_end_the_turn() -> None:
    feed = Feed()
    assert feed.push(0.9, 0.9, *SIXTEEN[1:], 0.9, *SIXTEEN[1:], 0.9) == [SpeechStarted(0)]


def test_the_threshold_is_the_least_probability_of_speech() -> None:
    feed = Feed(EndpointerSettings(threshold=0.8))
    assert feed.push(0.79, 0.79) == []
    assert feed.push(0.8, 0.8) != []


def test_a_threshold_of_zero_hears_speech_in_everything() -> None:
    feed = Feed(EndpointerSettings(threshold=0.0))
    assert feed.push(0.0, 0.0) == [SpeechStarted(0)]
    assert feed.push(*SIXTEEN * 2) == []


def test_a_low_threshold_still_hears_silence() -> None:
    feed = Feed(EndpointerSettings(threshold=0.1))
    feed.push(0.2, 0.2)
    assert feed.push(*[0.005] * 16) == [SpeechStopped(18 * W)]


def test_running_lengths_are_of_the_open_turn() -> None:
    feed, seen = Feed(), []
    assert feed.endpointer.audio_start_sample is None
    for probability in [0.0, 0.9, 0.9, 0.9, 0.0, 0.0, 0.9]:
        feed.push(probability)
        endpointer = feed.endpointer
        seen.append(
            (
                endpointer.speech_samples // W,
                endpointer.silence_samples // W,
                endpointer.speech_end_sample and endpointer.speech_end_sample // W,
            )
        )
    assert seen == [
        (0, 0, None), (0, 0, None), (2, 0, 3), (3, 0, 4), (3, 1, 4), (3, 2, 4), (4, 0, 7),
    ]  # fmt: skip
    assert feed.endpointer.audio_start_sample == 0
    feed.push(*SIXTEEN)
    assert (feed.endpointer.speech_samples, feed.endpointer.silence_samples) == (0, 0)


def test_new_settings_in_mid_speech_keep_the_turn_and_take_effect_at_once() -> None:
    feed = Feed()
    feed.push(0.9, 0.9, 0.0, 0.0)
    feed.endpointer.reconfigure(EndpointerSettings(silence_duration_ms=96))
    assert feed.endpointer.in_turn
    assert feed.endpointer.silence_samples == 2 * W
    assert feed.push(0.0) == [SpeechStopped(5 * W)]


def test_the_same_settings_again_change_nothing() -> None:
    changed, unchanged = Feed(), Feed()
    for probability in [0.0, 0.9, 0.9, 0.0, 0.9, *SIXTEEN, 0.0]:
        changed.endpointer.reconfigure(EndpointerSettings())
        assert changed.push(probability) == unchanged.push(probability)


def test_without_a_silence_rule_only_end_turn_stops() -> None:
    feed = Feed(EndpointerSettings(silence_duration_ms=None))
    feed.push(0.9, 0.9)
    assert feed.push(*[0.0] * 1_000) == []
    assert feed.endpointer.silence_samples == 1_000 * W
    assert feed.endpointer.end_turn(5 * W) == SpeechStopped(5 * W)
    assert not feed.endpointer.in_turn
    assert feed.push(0.9, 0.9) == [SpeechStarted(1_002 * W - PADDING)]


def test_a_turn_ended_outside_is_not_overlapped_by_the_next() -> None:
    feed = Feed()
    feed.push(0.9, 0.9, 0.0)
    feed.endpointer.end_turn(3 * W + 100)
    assert feed.push(0.9, 0.9) == [SpeechStarted(3 * W + 100)]


def test_a_turn_that_is_not_open_cannot_be_ended() -> None:
    feed = Feed()
    feed.push(0.9)
    with pytest.raises(NoTurnOpen, match=r"no turn is open \(the endpointer is in onset\)"):
        feed.endpointer.end_turn(W)
    assert feed.push(0.9) == [SpeechStarted(0)]


def test_a_turn_cannot_end_before_it_starts() -> None:
    feed = Feed()
    feed.push(*[0.0] * 20, 0.9, 0.9)
    with pytest.raises(ValueError, match="starts at sample 5440 cannot end at 5439"):
        feed.endpointer.end_turn(5_439)
    assert feed.endpointer.in_turn


def test_a_reset_drops_the_turn_and_what_was_heard_before_it() -> None:
    feed = Feed()
    feed.push(*[0.0] * 20, 0.9, 0.9)
    feed.endpointer.reset()
    assert not feed.endpointer.in_turn
    assert feed.push(0.9, 0.9) == [SpeechStarted(22 * W)]


def test_a_reset_at_a_later_sample_keeps_audio_before_it_out_of_turns() -> None:
    feed = Feed()
    feed.push(0.0)
    feed.endpointer.reset(3 * W)
    assert feed.push(0.0, 0.0, 0.0, 0.9, 0.9) == [SpeechStarted(3 * W)]


@pytest.mark.parametrize("probability", [-0.01, 1.01, float("nan")])
def test_what_is_no_probability_is_refused_and_changes_nothing(probability: float) -> None:
    feed = Feed()
    feed.push(0.9)
    with pytest.raises(ValueError, match="a probability is between 0 and 1"):
        feed.endpointer.push(probability, 2 * W)
    assert feed.push(0.9) == [SpeechStarted(0)]


def test_a_window_out_of_order_is_refused_and_changes_nothing() -> None:
    feed = Feed()
    feed.push(0.9)
    with pytest.raises(ValueError, match="window ends at 512, not after 512"):
        feed.endpointer.push(0.9, W)
    assert feed.push(0.9) == [SpeechStarted(0)]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("threshold", 1.1, "threshold must be between 0 and 1, got 1.1"),
        ("threshold", -0.1, "threshold must be between 0 and 1, got -0.1"),
        ("prefix_padding_ms", -1, "prefix_padding_ms must not be negative, got -1"),
        ("silence_duration_ms", -1, "silence_duration_ms must not be negative, got -1"),
        ("min_speech_ms", -1, "min_speech_ms must not be negative, got -1"),
    ],
)
def test_impossible_settings_are_refused(name: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EndpointerSettings(**{name: value})  # type: ignore[arg-type]  # names and values vary


@given(
    probabilities=st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.6, 1.0]), max_size=200),
    padding_ms=st.integers(0, 1_000),
    silence_ms=st.integers(0, 300),
)
def test_turns_alternate_and_never_overlap(
    probabilities: list[float], padding_ms: int, silence_ms: int
) -> None:
    feed = Feed(EndpointerSettings(0.5, padding_ms, silence_ms))
    events = feed.push(*probabilities)
    kinds = [type(event) for event in events]
    assert kinds == ([SpeechStarted, SpeechStopped] * len(kinds))[: len(kinds)]
    positions = [
        event.audio_start_sample if isinstance(event, SpeechStarted) else event.audio_end_sample
        for event in events
    ]
    assert positions == sorted(positions)
    assert feed.endpointer.in_turn == (len(events) % 2 == 1)
    assert feed.endpointer.silence_samples >= 0
