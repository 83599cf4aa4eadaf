"""Every attack leaves speech of about the same length, and changes it as it says."""

from __future__ import annotations

import numpy as np
import pytest

from audio.resample import resample_whole
from bench.attacks import ATTACKS, RATE_HZ, with_noise
from bench.clips import load_clips
from bench.watermark import cut, marked, search, segmental_ratios_db

CLIP = max(load_clips(), key=lambda clip: len(clip.samples))
SPEECH = resample_whole(CLIP.samples, 16_000, RATE_HZ)[: 6 * RATE_HZ]
KEY = b"the key of this benchmark"


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_left_is_speech_with_its_mark(name: str) -> None:
    damaged = ATTACKS[name](marked(SPEECH, 99))
    assert damaged.dtype == np.int16
    assert len(damaged) == pytest.approx(len(SPEECH), rel=0.03)
    assert name == "none" or not np.array_equal(damaged, marked(SPEECH, 99))
    found = search(damaged, KEY)
    assert found.p_value < 1e-6
    assert found.payload == 99


def test_noise_is_as_far_below_as_it_says() -> None:
    ratios = segmental_ratios_db(SPEECH, with_noise(SPEECH, 20.0))
    assert 5 < np.median(ratios) < 25


def test_a_cut_is_as_long_as_asked_for_and_anywhere() -> None:
    pieces = [cut(SPEECH, 2, seed) for seed in range(4)]
    assert {len(piece) for piece in pieces} == {2 * RATE_HZ}
    assert len({piece.tobytes() for piece in pieces}) == 4
