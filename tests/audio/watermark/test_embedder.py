"""A stream is marked the same however it is cut, at once, and hardly changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import KEY, PAYLOAD, RATE_HZ, babble, mark

from audio.watermark.embedder import STRENGTH_DB, Embedder
from audio.watermark.grid import HOP, WINDOW

SPEECH = babble(2.5)
WHOLE = mark(SPEECH, sizes=(len(SPEECH),))


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=6), length=st.integers(0, 60_000))
def test_any_chunking_gives_the_same(sizes: list[int], length: int) -> None:
    marked = mark(SPEECH[:length], sizes=[max(size, 97) for size in sizes])
    assert len(marked) == length
    whole = mark(SPEECH[:length], sizes=(max(length, 1),))
    assert np.array_equal(marked, whole)


def test_little_is_held_back() -> None:
    embedder = Embedder(KEY, PAYLOAD)
    given_back = 0
    for number in range(1, 200):
        given_back += len(embedder.process(SPEECH[(number - 1) * 251 :][:251]))
        assert number * 251 - given_back <= WINDOW


def test_an_empty_stream_is_empty() -> None:
    assert len(Embedder(KEY, PAYLOAD).flush()) == 0


def test_silence_stays_silent() -> None:
    assert not mark(np.zeros(10_000, np.int16)).any()


def test_nothing_else_is_changed() -> None:
    error = WHOLE.astype(float) - SPEECH
    ratio_db = 10 * np.log10((SPEECH.astype(float) ** 2).sum() / (error**2).sum())
    # A band that is raised or lowered by so much is off by this.
    assert ratio_db > -20 * np.log10(10 ** (STRENGTH_DB / 20) - 1) - 0.5


def test_there_is_no_click_at_the_edges_of_chunks() -> None:
    at = np.arange(3 * RATE_HZ)
    tone = np.rint(8000 * np.sin(2 * np.pi * 440 * at / RATE_HZ)).astype(np.int16)
    marked = mark(tone, sizes=(4800,)).astype(float)
    steepest = np.abs(np.diff(marked, 2)).max()
    # What 440 Hz at its loudest bends from sample to sample, and a little for the change itself.
    assert steepest < 8000 * 10 ** (STRENGTH_DB / 20) * (2 * np.pi * 440 / RATE_HZ) ** 2 * 1.2


def test_full_scale_is_not_wrapped_around() -> None:
    loud = np.where(np.arange(48_000) // 60 % 2, 32767, -32768).astype(np.int16)
    marked = mark(loud).astype(int)
    inside = slice(HOP, -HOP)
    assert (np.sign(marked[inside]) == np.sign(loud[inside].astype(int))).mean() > 0.97


@pytest.mark.parametrize(("key", "payload"), [(b"", 0), (KEY, -1), (KEY, 0x10000)])
def test_what_cannot_be_a_mark_is_refused(key: bytes, payload: int) -> None:
    with pytest.raises(ValueError):
        Embedder(key, payload)
