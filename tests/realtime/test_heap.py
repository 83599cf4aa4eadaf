"""Memory goes back to the system when the server rests."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from realtime import heap
from realtime.heap import Heap, trimmer


async def test_rest_trims_off_the_loop_and_not_all_the_time() -> None:
    trimmed = threading.Event()
    threads: list[int] = []

    def trim() -> int:
        threads.append(threading.get_ident())
        trimmed.set()
        return 1

    one = Heap(trim)
    one.rest()
    one.rest()
    while one._trimming is not None:
        await one._trimming
    assert trimmed.is_set()
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
    one.rest()  # a moment ago
    assert one._trimming is None


async def test_later_it_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap, "PAUSE_S", 0.0)
    count = 0

    def trim() -> int:
        nonlocal count
        count += 1
        return 1

    one = Heap(trim)
    for _ in range(3):
        one.rest()
        assert one._trimming is not None
        await one._trimming
    assert count == 3


def resident_kib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


@pytest.mark.skipif(trimmer() is None, reason="the C library has no malloc_trim")
def test_what_was_freed_goes_back_to_the_system() -> None:
    trim = trimmer()
    assert trim is not None
    kept, dropped = [], []
    for _ in range(40_000):
        dropped.append(bytes(1000))
        kept.append(bytes(40))  # so that nothing at the end of the heap is free
    before = resident_kib()
    dropped.clear()
    trim()
    assert before - resident_kib() > 10_000
    assert len(kept) == 40_000
