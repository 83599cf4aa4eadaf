"""Lines, times and subtitles."""

from __future__ import annotations

import numpy as np

from pipeline.messages import INPUT_RATE_HZ
from realtime.rest.audio_history import LIFE_S, AudioHistory
from realtime.rest.captions import segments_of, srt, vtt, words_of
from realtime.rest.recordings import WINDOW_SAMPLES, Heard, windows_of


def heard(*words: tuple[str, float, float], start_s: float = 0.0) -> Heard:
    text = " ".join(word for word, _, _ in words)
    return Heard(text, start_s, start_s + 28.0, {"words": list(words)})


def test_a_line_ends_with_its_sentence_but_not_with_an_abbreviation() -> None:
    window = heard(
        ("Mr.", 0, 0.3),
        ("Smith", 0.3, 0.6),
        ("left.", 0.6, 1.0),
        ("So", 1.1, 1.3),
        ("what?", 1.3, 2),
    )
    assert [segment.text for segment in segments_of(window)] == ["Mr. Smith left.", "So what?"]


def test_a_line_ends_before_a_pause_and_before_it_is_too_long() -> None:
    paused = heard(("well", 0.0, 0.5), ("then", 3.0, 3.5))
    assert [segment.text for segment in segments_of(paused)] == ["well", "then"]
    long = heard(*((f"w{at}", at * 1.0, at + 0.9) for at in range(20)))
    lines = list(segments_of(long))
    assert max(line.end_s - line.start_s for line in lines) <= 7.0
    assert " ".join(line.text for line in lines) == long.text


def test_times_count_from_the_start_of_the_recording() -> None:
    window = heard(("late.", 0.5, 1.25), start_s=3661.0)
    lines = list(segments_of(window))
    assert srt(lines) == "1\n01:01:01,500 --> 01:01:02,250\nlate.\n\n"
    assert vtt(lines) == "WEBVTT\n\n01:01:01.500 --> 01:01:02.250\nlate.\n\n"
    assert lines[0].json(0)["seek"] == 366_100


def test_words_without_times_share_the_windows() -> None:
    words = words_of(Heard("one two", 10.0, 12.0, {}))
    assert [(word.start_s, word.end_s) for word in words] == [(10.0, 11.0), (11.0, 12.0)]
    assert words_of(Heard("", 0.0, 1.0, {})) == []


def test_windows_are_cut_where_it_is_quiet_and_lose_nothing() -> None:
    random = np.random.default_rng(1)
    samples = random.integers(-9000, 9000, 100 * INPUT_RATE_HZ).astype(np.int16)
    quiet = WINDOW_SAMPLES - 2 * INPUT_RATE_HZ
    samples[quiet : quiet + 4000] = 0
    blocks = np.array_split(samples, 73)
    windows = list(windows_of(blocks))
    assert np.array_equal(np.concatenate(windows), samples)
    assert max(len(window) for window in windows) <= WINDOW_SAMPLES
    assert 0 <= len(windows[0]) - quiet <= 4000
    assert list(windows_of([])) == []


def test_spoken_answers_are_forgotten_after_an_hour_and_beyond_the_bounds() -> None:
    now = 1000.0
    history = AudioHistory(max_answers=3, max_chars=100, now=lambda: now)
    for name in "abcd":
        history.keep(name, "me", name * 10, history.expiry())
    assert [history.find(name, "me") for name in "ad"] == [None, "d" * 10]
    assert history.find("d", "you") is None
    history.keep("long", "me", "x" * 95, history.expiry())
    assert len(history) == 1
    now += LIFE_S
    assert history.find("long", "me") is None
    assert len(history) == 0
