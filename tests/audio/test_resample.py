"""The stream resampler: exact over any cuts, faithful, prompt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from signals import cuts, noise, pieces, tone

from audio.resample import StreamResampler, resample_whole

RATES = [(24_000, 16_000), (8_000, 16_000), (48_000, 16_000), (44_100, 16_000), (24_000, 8_000)]


def resample(signal: NDArray[np.int16], in_hz: int, out_hz: int) -> NDArray[np.int16]:
    resampler = StreamResampler(in_hz, out_hz)
    return np.concatenate([resampler.process(signal), resampler.flush()])


@given(rates=st.sampled_from(RATES), lengths=cuts)
@settings(max_examples=40, deadline=None)
def test_any_chunking_equals_one_shot(rates: tuple[int, int], lengths: list[int]) -> None:
    signal = noise(9_000)
    resampler = StreamResampler(*rates)
    streamed = [resampler.process(piece) for piece in pieces(signal, lengths)]
    streamed.append(resampler.flush())
    np.testing.assert_array_equal(np.concatenate(streamed), resample(signal, *rates))


@given(lengths=cuts)
@settings(max_examples=15, deadline=None)
def test_any_chunking_of_floats_equals_one_shot(lengths: list[int]) -> None:
    signal = noise(9_000)
    whole, streamed = (StreamResampler(24_000, 16_000, np.float32) for _ in range(2))
    out = [streamed.process(piece.astype(np.float32)) for piece in pieces(signal, lengths)]
    one_shot = [whole.process(signal.astype(np.float32)), whole.flush()]
    np.testing.assert_array_equal(
        np.concatenate([*out, streamed.flush()]), np.concatenate(one_shot)
    )


@pytest.mark.parametrize(("in_hz", "out_hz"), RATES)
def test_the_output_is_as_long_as_the_input(in_hz: int, out_hz: int) -> None:
    assert resample(noise(in_hz * 2), in_hz, out_hz).size == out_hz * 2


@pytest.mark.parametrize(("in_hz", "out_hz"), RATES)
def test_a_tone_keeps_its_place_and_level(in_hz: int, out_hz: int) -> None:
    out = resample(tone(440, in_hz, in_hz), in_hz, out_hz).astype(float)
    expected = tone(440, out_hz, out_hz).astype(float)
    middle = slice(out_hz // 10, -out_hz // 10)
    # A quarter of a millisecond of a 440 Hz tone of amplitude 16384 is a difference of 11,000.
    assert np.abs(out - expected)[middle].max() < 0.00025 * 2 * np.pi * 440 * 16_384
    assert np.std(out[middle]) == pytest.approx(np.std(expected[middle]), rel=0.001)


def test_what_the_lower_rate_cannot_hold_is_removed() -> None:
    out = resample(tone(10_000, 24_000, 24_000), 24_000, 16_000)
    assert np.abs(out[1_600:-1_600]).max() <= 1


@pytest.mark.parametrize(
    ("in_hz", "out_hz", "lag_ms"), [(24_000, 16_000, 11), (8_000, 16_000, 31), (16_000, 24_000, 16)]
)
def test_the_output_follows_the_input_closely(in_hz: int, out_hz: int, lag_ms: float) -> None:
    resampler = StreamResampler(in_hz, out_hz)
    heard, given_samples = 0, 0
    for piece in pieces(noise(in_hz), [in_hz // 50]):
        heard += resampler.process(piece).size
        given_samples += piece.size
        assert given_samples / in_hz - heard / out_hz < lag_ms / 1000


def test_equal_rates_give_the_same_array_back() -> None:
    resampler = StreamResampler(16_000, 16_000)
    signal = noise(100)
    assert resampler.process(signal) is signal
    assert resampler.flush().size == 0


def test_silence_stays_silent() -> None:
    assert not resample(np.zeros(5_000, np.int16), 24_000, 16_000).any()


def test_overshoot_is_clipped_and_does_not_wrap() -> None:
    square = np.where(np.arange(24_000) // 120 % 2, 32767, -32768).astype(np.int16)
    out = resample(square, 24_000, 16_000)
    assert out.max() == 32767
    assert out.min() == -32768
    # In the middle of each half wave the sign is the square's.
    middle = (np.arange(20, 180) * 80 + 40).astype(int)
    np.testing.assert_array_equal(np.sign(out[middle]), np.sign(square[middle * 3 // 2]))


def test_after_a_flush_or_a_reset_the_next_stream_starts_afresh() -> None:
    signal = noise(5_000)
    expected = resample(signal, 24_000, 16_000)
    resampler = StreamResampler(24_000, 16_000)
    resampler.process(noise(3_333, seed=1))
    resampler.flush()
    again = np.concatenate([resampler.process(signal), resampler.flush()])
    np.testing.assert_array_equal(again, expected)
    resampler.process(noise(3_333, seed=1))
    resampler.reset()
    again = np.concatenate([resampler.process(signal), resampler.flush()])
    np.testing.assert_array_equal(again, expected)


def test_a_flush_without_input_gives_nothing() -> None:
    assert StreamResampler(24_000, 16_000).flush().size == 0


@pytest.mark.parametrize(
    "samples", [np.zeros(4, np.float32), np.zeros((2, 2), np.int16), np.zeros(4, np.int32)]
)
@pytest.mark.parametrize("out_hz", [16_000, 24_000])
def test_samples_of_another_kind_are_refused(samples: NDArray[Any], out_hz: int) -> None:
    with pytest.raises(TypeError, match="expected one dimension of int16"):
        StreamResampler(24_000, out_hz).process(samples)


def test_impossible_rates_and_types_are_refused() -> None:
    with pytest.raises(ValueError, match="sample rates must be above 0, got 0 and 16000"):
        StreamResampler(0, 16_000)
    with pytest.raises(TypeError, match="samples must be int16 or float32, not float64"):
        StreamResampler(8_000, 16_000, np.float64)  # type: ignore[type-var]  # that is the point


@pytest.mark.parametrize(("in_hz", "out_hz"), [(16_000, 24_000), (16_000, 8_000), (24_000, 24_000)])
def test_a_finished_piece_keeps_its_length_and_its_place(in_hz: int, out_hz: int) -> None:
    t = np.arange(in_hz) / in_hz
    whole = resample_whole((np.sin(2 * np.pi * 440 * t) * 8000).astype(np.int16), in_hz, out_hz)
    expected = np.sin(2 * np.pi * 440 * np.arange(out_hz) / out_hz) * 8000
    assert len(whole) == out_hz
    assert np.abs(whole - expected)[200:-200].max() < 20
