"""What a key and a payload make of the grid."""

from __future__ import annotations

import numpy as np
import pytest

from audio.watermark.grid import BAND_EDGES, BANDS, BINS, PERIOD_FRAMES
from audio.watermark.pattern import CELLS, CODES, frame_signs, key_pattern, symbols_of


def test_every_cell_has_one_part_to_play() -> None:
    pattern = key_pattern(b"key")
    cells = np.concatenate([pattern.sync, pattern.symbols.reshape(-1)])
    assert sorted(cells.tolist()) == list(range(CELLS))
    assert set(np.unique(pattern.signs)) == {-1.0, 1.0}


def test_it_is_the_same_on_every_machine() -> None:
    pattern = key_pattern(b"key")
    assert pattern.sync[:6].tolist() == [1, 2, 3, 5, 7, 9]
    assert pattern.signs[:8].astype(int).tolist() == [-1, 1, 1, 1, 1, -1, -1, -1]


def test_keys_have_nothing_in_common() -> None:
    one, other = key_pattern(b"key"), key_pattern(b"kez")
    assert abs(float(one.signs @ other.signs)) < 5 * np.sqrt(CELLS)


def test_values_of_a_byte_are_orthogonal() -> None:
    assert np.array_equal(CODES @ CODES.T, 256 * np.eye(256, dtype=np.float32))


def test_payloads_differ_where_the_key_lets_them() -> None:
    one, other = frame_signs(b"key", 0x12AB), frame_signs(b"key", 0x12AC)
    assert one.shape == (PERIOD_FRAMES, BANDS)
    differing = float((one != other).mean())
    assert differing == pytest.approx(1 / 8)  # half of one byte's quarter


def test_a_payload_is_two_bytes() -> None:
    assert symbols_of(0x12AB) == (0x12, 0xAB)
    for wrong in (-1, 0x10000):
        with pytest.raises(ValueError, match="16 bits"):
            symbols_of(wrong)


def test_there_is_no_mark_without_a_key() -> None:
    with pytest.raises(ValueError, match="key"):
        key_pattern(b"")


def test_bands_lie_in_the_spectrum() -> None:
    assert (np.diff(BAND_EDGES) > 0).all()
    assert BAND_EDGES[-1] < BINS
