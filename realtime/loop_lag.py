"""How long the event loop is busy between two looks at its sockets.

That is how late anything can be that became due meanwhile. It is measured where asyncio waits, in
its selector, so that nothing has to run on a timer to find out: two readings of the clock a turn.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

logger = logging.getLogger(__name__)

BOUNDS_S = (
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 1.0,
)  # fmt: skip
"""Nothing on the loop should take more than 5 ms; what does is counted above that bound."""

STILL_S = 0.25
"""A turn this long is written to the log."""


class LoopLag(Collector):
    """Counts the loop's turns by their length, for `/metrics`."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def note(self, busy_s: float) -> None:
        """One turn of the loop."""
        self._counts[bisect_left(BOUNDS_S, busy_s)] += 1
        self._sum_s += busy_s
        if busy_s >= STILL_S:
            logger.warning("the event loop was busy for %.0f ms", busy_s * 1000)

    def describe(self) -> list[Metric]:
        """The name is known without being asked for."""
        return []

    def collect(self) -> Iterator[Metric]:
        """A histogram."""
        total, buckets = 0, []
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family = HistogramMetricFamily("sori_loop_busy_seconds", "turns of the event loop")
        family.add_metric([], buckets, self._sum_s)
        yield family


class TimedSelector(selectors.DefaultSelector):
    """Tells how long its owner was busy before each `select`."""

    def __init__(self, note: Callable[[float], None]) -> None:
        super().__init__()
        self._note = note
        self._returned_s: float | None = None

    def select(self, timeout: float | None = None) -> list[Any]:
        """As the platform's own."""
        if self._returned_s is not None:
            self._note(time.monotonic() - self._returned_s)
        ready: list[Any] = super().select(timeout)
        self._returned_s = time.monotonic()
        return ready


def timed_loop(lag: LoopLag) -> asyncio.AbstractEventLoop:
    """An ordinary event loop whose turns are counted."""
    return asyncio.SelectorEventLoop(TimedSelector(lag.note))
