"""Playback of a reply that arrives in pieces, by arithmetic alone."""

import numpy as np
import pytest

from bench.playback import (
    Piece,
    audible_at_s,
    find_gaps,
    first_audible_sample,
    lead_in_ms,
    playback_end_s,
)

RATE_HZ = 1000


def piece(at_s: float, ms: int, level: int = 8000) -> Piece:
    """Audio of one level; at this rate a sample is a millisecond."""
    return Piece(at_s, np.full(ms, level, np.int16))


def test_audio_that_arrives_ahead_of_its_playback_leaves_no_gap() -> None:
    assert find_gaps([piece(0.0, 100), piece(0.05, 100), piece(0.2, 100)], RATE_HZ) == []


def test_a_piece_that_comes_after_the_rest_was_played_is_a_gap_of_that_length() -> None:
    (gap,) = find_gaps([piece(1.0, 100), piece(1.25, 100)], RATE_HZ)
    assert gap.at_sample == 100
    assert gap.seconds == pytest.approx(0.15)


def test_time_lost_in_a_gap_is_lead_for_what_follows() -> None:
    pieces = [piece(0.0, 100), piece(0.3, 100), piece(0.4, 100)]
    assert len(find_gaps(pieces, RATE_HZ)) == 1


def test_a_playback_buffer_hides_gaps_shorter_than_itself() -> None:
    pieces = [piece(0.0, 100), piece(0.13, 100)]
    assert len(find_gaps(pieces, RATE_HZ)) == 1
    assert find_gaps(pieces, RATE_HZ, buffer_ms=50) == []


def test_playback_ends_when_all_has_been_played_gaps_included() -> None:
    assert playback_end_s([piece(1.0, 100), piece(1.25, 100)], RATE_HZ) == pytest.approx(1.35)
    assert playback_end_s([], RATE_HZ) is None


def test_a_reply_becomes_audible_with_the_piece_that_completes_a_loud_frame() -> None:
    pieces = [piece(1.0, 30, level=0), piece(2.0, 5), piece(3.0, 20)]
    # The frame of samples 30 to 39 is complete only when the third piece is there.
    assert audible_at_s(pieces, RATE_HZ) == 3.0
    assert lead_in_ms(pieces, RATE_HZ) == 30


def test_fifty_decibels_below_full_scale_is_the_border() -> None:
    quiet = round(32768 * 10 ** (-51 / 20))
    loud = round(32768 * 10 ** (-49 / 20))
    assert first_audible_sample(np.full(100, quiet, np.int16), RATE_HZ) is None
    assert first_audible_sample(np.full(100, loud, np.int16), RATE_HZ) == 0


def test_silence_and_nothing_are_never_audible() -> None:
    assert audible_at_s([piece(0.0, 100, level=0)], RATE_HZ) is None
    assert audible_at_s([], RATE_HZ) is None
    assert lead_in_ms([], RATE_HZ) is None
