"""The playhead, driven by a clock that the tests move."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realtime.pacing import Pacer, Playhead

RATE_HZ = 1000  # one sample a millisecond


def test_the_first_chunk_goes_at_once_even_if_longer_than_the_lead() -> None:
    head = Playhead(RATE_HZ, lead_ms=100)

    assert head.wait_s(5000, now_s=7.0) == 0


def test_audio_goes_at_once_up_to_the_lead_and_then_as_it_is_played() -> None:
    head = Playhead(RATE_HZ, lead_ms=2000)
    for _ in range(10):
        assert head.wait_s(200, now_s=5.0) == 0
        head.send(200, now_s=5.0)

    assert head.wait_s(200, now_s=5.0) == pytest.approx(0.2)
    assert head.wait_s(200, now_s=5.125) == pytest.approx(0.075)
    assert head.wait_s(200, now_s=5.25) == 0


def test_playback_stands_still_while_there_is_nothing_to_play() -> None:
    head = Playhead(RATE_HZ, lead_ms=2000)
    assert head.played(99.0) == 0
    head.send(500, now_s=1.0)
    assert head.played(1.25) == 250
    assert head.played(60.0) == 500
    assert head.underruns == 0

    head.send(500, now_s=60.0)

    assert head.underruns == 1
    assert head.played(60.25) == 750


def test_a_pause_stops_playback_and_is_no_underrun() -> None:
    head = Playhead(RATE_HZ, lead_ms=300)
    head.send(400, now_s=1.0)
    head.pause(1.25)
    assert head.played(9.0) == 250
    assert head.wait_s(200, now_s=9.0) == pytest.approx(0.05)

    head.resume(9.0)
    assert head.played(9.0) == 250
    assert head.played(9.1) == 350
    head.send(100, now_s=9.1)
    assert head.underruns == 0


def test_a_steady_reply_has_no_underrun() -> None:
    head = Playhead(RATE_HZ, lead_ms=300)
    now_s = 0.0
    for _ in range(50):
        now_s += head.wait_s(100, now_s)
        head.send(100, now_s)

    assert head.underruns == 0
    assert now_s == pytest.approx(4.7)


@given(st.lists(st.tuples(st.integers(1, 300), st.floats(0, 1)), max_size=40))
def test_what_is_sent_is_never_further_ahead_than_the_lead_or_one_chunk(
    chunks: list[tuple[int, float]],
) -> None:
    head = Playhead(RATE_HZ, lead_ms=500)
    now_s, heard = 0.0, 0
    for samples, idle_s in chunks:
        now_s += idle_s
        now_s += head.wait_s(samples, now_s)
        head.send(samples, now_s)
        played = head.played(now_s)
        assert played >= heard
        heard = played
        # One sample of slack: the wait is a float.
        assert head.sent - played <= max(500, samples) + 1


async def test_the_pacer_waits_exactly_as_long_as_the_playhead_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 10.0
    waits: list[float] = []

    async def sleep(delay_s: float) -> None:
        nonlocal now_s
        waits.append(delay_s)
        now_s += delay_s

    monkeypatch.setattr(asyncio, "sleep", sleep)
    pacer = Pacer(Playhead(RATE_HZ, lead_ms=400), lambda: now_s)

    heard = [await pacer.admit(200) for _ in range(5)]

    assert waits == pytest.approx([0.2, 0.2, 0.2])
    assert heard == [0, 0, 200, 400, 600]
