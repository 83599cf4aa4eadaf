"""Recordings of any length: where they are marked, and with what."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from marked import KEY, RATE_HZ, babble, mark
from numpy.typing import NDArray

from audio.watermark.scan import detect


def blocks(samples: NDArray[np.int16], size: int = 16_384) -> Iterator[NDArray[np.int16]]:
    for begin in range(0, len(samples), size):
        yield samples[begin : begin + size]


def test_a_marked_piece_is_found_in_a_longer_recording() -> None:
    recording = np.concatenate([babble(11, 1), mark(babble(7, 2), 77), babble(9, 3)])
    found = detect(blocks(recording), KEY)
    assert found.detected
    assert found.payload == 77
    assert found.p_value < 1e-6
    (one,) = found.ranges
    assert one.payload == 77
    assert 8 <= one.start_s <= 13
    assert 16 <= one.end_s <= 21
    assert found.seconds == pytest.approx(27)


def test_replies_with_different_payloads_are_told_apart() -> None:
    recording = np.concatenate([mark(babble(8, 4), 1), babble(6, 5), mark(babble(8, 6), 2)])
    found = detect(blocks(recording), KEY)
    assert [one.payload for one in found.ranges] == [1, 2]
    assert found.ranges[0].end_s <= found.ranges[1].start_s


def test_the_size_of_blocks_does_not_matter() -> None:
    recording = mark(babble(12, 7))
    assert detect(blocks(recording, 1000), KEY) == detect(blocks(recording, 100_000), KEY)


@pytest.mark.parametrize("seconds", [0, 0.5, 15])
def test_an_unmarked_recording_is_not(seconds: float) -> None:
    found = detect(blocks(babble(seconds, 8) if seconds else np.zeros(0, np.int16)), KEY)
    assert not found.detected
    assert found.payload is None
    assert found.ranges == ()
    assert found.p_value > 1e-4


def test_replies_cut_short_keep_their_mark() -> None:
    # Barge-in: each reply is a stream of its own, and breaks off where the listener speaks.
    heard = [
        mark(babble(6, seed), 9)[: int(length * RATE_HZ)] for seed, length in ((1, 3.1), (2, 4.7))
    ]
    found = detect(blocks(np.concatenate(heard)), KEY)
    assert found.detected
    assert {one.payload for one in found.ranges} == {9}


def test_no_more_is_held_than_a_window() -> None:
    silence = np.zeros(RATE_HZ, np.int16)
    found = detect((silence for _ in range(600)), KEY)
    assert found.seconds == 600
    assert not found.detected
