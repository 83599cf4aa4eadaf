"""Levels in dBFS, and where sound begins."""

from __future__ import annotations

import numpy as np
import pytest
from signals import SPEECH, tone

from audio.containers import load_audio
from audio.levels import SILENCE_DBFS, dbfs, first_audible_sample, frame_dbfs


def test_a_full_scale_sine_lies_three_decibels_below_a_square_wave() -> None:
    assert dbfs(tone(1_000, 24_000, 24_000, level=1.0)) == pytest.approx(-3.01, abs=0.01)
    assert dbfs(np.full(100, -32768, np.int16)) == pytest.approx(0, abs=0.001)
    assert dbfs(tone(1_000, 24_000, 24_000, level=0.01)) == pytest.approx(-43.01, abs=0.05)


def test_silence_and_nothing_have_the_lowest_level() -> None:
    assert dbfs(np.zeros(480, np.int16)) == SILENCE_DBFS
    assert dbfs(np.zeros(0, np.int16)) == SILENCE_DBFS


def test_the_first_audible_frame_is_found_at_its_start() -> None:
    sound = np.concatenate([np.zeros(1_000, np.int16), tone(1_000, 24_000, 2_400, level=0.1)])
    # 1,000 samples are four frames of 10 ms and 40 samples: the fifth frame holds the rest.
    assert first_audible_sample(sound, 24_000) == 960
    assert first_audible_sample(sound, 24_000, above_dbfs=-5) is None


def test_what_is_too_quiet_or_too_short_is_not_audible() -> None:
    assert first_audible_sample(tone(1_000, 24_000, 24_000, level=0.003), 24_000) is None
    assert first_audible_sample(tone(1_000, 24_000, 239, level=1.0), 24_000) is None


def test_levels_are_of_whole_frames() -> None:
    levels = frame_dbfs(tone(1_000, 24_000, 1_000, level=1.0), 24_000)
    assert levels.shape == (4,)
    assert levels == pytest.approx(-3.01, abs=0.01)
    assert frame_dbfs(tone(1_000, 24_000, 1_000), 24_000, frame_ms=20).shape == (2,)


def test_recorded_speech_is_found_where_it_is() -> None:
    speech = load_audio(SPEECH / "go_forward.wav", 16_000)
    start = first_audible_sample(speech, 16_000, above_dbfs=-30)
    assert start is not None
    assert 400 < start / 16 < 700  # milliseconds; the transcript's table says 512
