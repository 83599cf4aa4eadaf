"""What is said of processes that grow, stay, or are replaced."""

from __future__ import annotations

import pytest

from bench.footprint import Footprint, Process, compare


def looks(*rss_kib: int, pids: tuple[int, ...] = ()) -> list[Footprint]:
    """One look for each size of a process called `one`."""
    ids = pids or (1,) * len(rss_kib)
    sizes = zip(ids, rss_kib, strict=True)
    return [Footprint({"one": Process(pid, size, 9, 2)}, 11, 0) for pid, size in sizes]


def test_growth_is_counted_from_the_first_look_and_from_the_middle() -> None:
    growth = compare(looks(100, 110, 120, 120, 120))["one"]
    assert growth.percent == pytest.approx(20)
    assert growth.late_percent == 0


def test_a_leak_grows_in_the_second_half_too() -> None:
    assert compare(looks(100, 110, 120, 130, 140))["one"].late_percent > 10


def test_a_successor_is_compared_with_its_own_second_look() -> None:
    growth = compare(looks(300, 300, 80, 100, 101, pids=(1, 1, 2, 2, 2)))["one"]
    assert growth.first.rss_kib == 100
    assert growth.percent == growth.late_percent == pytest.approx(1)


def test_one_that_was_seen_only_once_has_not_grown() -> None:
    assert compare(looks(300, 300, 80, pids=(1, 1, 2)))["one"].percent == 0
