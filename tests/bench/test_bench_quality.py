"""What `sori bench quality` sees at the joins of spoken pieces."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.quality import TEXTS, Speech, joins_inside, render, seam_at
from pipeline.messages import OUTPUT_RATE_HZ


def voice(f0_hz: float, level: float, seconds: float = 0.5) -> NDArray[np.int16]:
    """Ten harmonics."""
    phase = 2 * np.pi * f0_hz * np.arange(int(seconds * OUTPUT_RATE_HZ)) / OUTPUT_RATE_HZ
    wave = sum(np.sin(k * phase) / k for k in range(1, 11))
    return np.asarray(level * 8000 * wave, np.int16)


def test_only_latency_first_joins_inside_sentences() -> None:
    for text in TEXTS:
        assert joins_inside(text, latency_first=True)
        assert joins_inside(text, latency_first=False) == []
    # The end of a sentence is a join of both, and none that counts.
    assert joins_inside("Yes. No. Maybe so.", latency_first=True) == []


def test_a_seam_is_measured_from_the_end_of_the_word_before_it() -> None:
    gap = np.zeros(OUTPUT_RATE_HZ // 10, np.int16)
    samples = np.concatenate([voice(200, 1.0), gap, voice(100, 0.5)])
    end = OUTPUT_RATE_HZ // 2
    seam = seam_at(Speech(samples, ((4, end), (9, len(samples))), 0.0), place=6)
    assert seam.pitch_step_semitones == pytest.approx(12, abs=0.2)
    assert seam.level_step_db == pytest.approx(6, abs=0.5)
    assert seam.pause_ms == pytest.approx(100, abs=11)


def test_even_sound_has_no_step_and_silence_no_pitch() -> None:
    even = Speech(voice(150, 1.0, 1.0), ((4, OUTPUT_RATE_HZ // 2),), 0.0)
    seam = seam_at(even, place=4)
    assert seam.pitch_step_semitones == pytest.approx(0, abs=0.1)
    assert seam.level_step_db == pytest.approx(0, abs=0.5)
    assert seam.pause_ms == 0
    silent = Speech(np.zeros(OUTPUT_RATE_HZ, np.int16), ((4, OUTPUT_RATE_HZ // 2),), 0.0)
    assert seam_at(silent, place=4).pitch_step_semitones is None


def test_the_table_has_a_column_for_each_mode() -> None:
    column = {"joins": 2, "pause_ms": {"p50": 150.0, "p95": 170.5, "n": 3}, "rate": None}
    assert render({"fast": column, "good": column}).splitlines() == [
        "| | fast | good |",
        "|---|---|---|",
        "| joins | 2 | 2 |",
        "| pause ms | 150 (170.5) | 150 (170.5) |",
        "| rate | – | – |",
    ]
