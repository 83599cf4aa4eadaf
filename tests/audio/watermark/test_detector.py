"""Marks are found, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from marked import KEY, PAYLOAD, RATE_HZ, babble, mark
from numpy.typing import NDArray
from scipy.stats import kstest

from audio.codecs import get_decoder, get_encoder
from audio.formats import PCMU, AudioFormat
from audio.resample import resample_whole
from audio.watermark.detector import Finding, find
from audio.watermark.features import features

THRESHOLD = 1e-6


def find_in(samples: NDArray[np.int16], key: bytes = KEY) -> Finding:
    return find(features(samples.astype(np.float32) / np.float32(32768)), key)


MARKED = mark(babble(12))


@pytest.mark.parametrize("begin_s", [0.0, 0.731, 3.3, 5.9])
def test_a_mark_is_found_from_any_point_on(begin_s: float) -> None:
    begin = int(begin_s * RATE_HZ)
    found = find_in(MARKED[begin : begin + 5 * RATE_HZ])
    assert found.p_value < THRESHOLD
    assert found.payload == PAYLOAD
    assert found.speed == pytest.approx(1.0, abs=0.003)


def telephone(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    form = AudioFormat(PCMU)
    sent = get_encoder(form).encode(resample_whole(samples, RATE_HZ, 8_000))
    return resample_whole(get_decoder(form).decode(b"".join(sent)), 8_000, RATE_HZ)


def quieter(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    halved: NDArray[np.int16] = np.rint(samples * 0.5).astype(np.int16)
    return halved


def noisy(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    noise = np.random.default_rng(5).standard_normal(len(samples))
    loudness = np.sqrt(np.mean(samples.astype(float) ** 2)) * 0.1  # 20 dB
    summed = np.rint(samples + noise * loudness).clip(-32768, 32767)
    return np.asarray(summed, np.int16)


def faster(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    return resample_whole(samples, 24_240, RATE_HZ)


def slower(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    return resample_whole(samples, 23_760, RATE_HZ)


@pytest.mark.parametrize("attack", [telephone, quieter, noisy, faster, slower])
def test_a_mark_survives_what_happens_to_speech(attack: object) -> None:
    assert callable(attack)
    found = find_in(attack(MARKED)[RATE_HZ : 8 * RATE_HZ])
    assert found.p_value < THRESHOLD
    assert found.payload == PAYLOAD
    if attack in (faster, slower):
        assert found.speed == pytest.approx(1.01 if attack is faster else 0.99, abs=0.003)


def test_p_values_of_unmarked_sound_are_uniform() -> None:
    chances = [find_in(babble(4, seed), b"key %d" % seed).p_value for seed in range(100, 160)]
    assert kstest(chances, "uniform").pvalue > 0.01
    assert min(chances) > 1e-4


def test_with_another_key_a_mark_is_none() -> None:
    pieces = [MARKED[begin * RATE_HZ :][: 4 * RATE_HZ] for begin in range(8)]
    chances = [find_in(piece, b"wrong").p_value for piece in pieces]
    assert min(chances) > 1e-3


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(0, np.int16),
        np.zeros(100, np.int16),
        np.zeros(5 * RATE_HZ, np.int16),
        np.full(5 * RATE_HZ, 1000, np.int16),
        np.eye(1, 5 * RATE_HZ, 1000, dtype=np.int16)[0] * 20_000,
    ],
    ids=["nothing", "too short", "silence", "direct current", "click"],
)
def test_what_is_no_speech_is_not_marked(samples: NDArray[np.int16]) -> None:
    found = find_in(samples)
    assert found.p_value > 1e-3
