"""The event loop's turns are counted by their length."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from realtime.loop_lag import LoopLag, timed_loop


def count_above(lag: LoopLag, bound: str) -> float:
    registry = CollectorRegistry()
    registry.register(lag)
    total = registry.get_sample_value("sori_loop_busy_seconds_bucket", {"le": "+Inf"})
    below = registry.get_sample_value("sori_loop_busy_seconds_bucket", {"le": bound})
    assert total is not None and below is not None
    return total - below


@pytest.mark.parametrize("blocks", [False, True])
def test_a_turn_that_blocks_is_seen(blocks: bool) -> None:
    lag = LoopLag()

    async def work() -> None:
        await asyncio.sleep(0)
        if blocks:
            time.sleep(0.12)  # noqa: ASYNC251 - what is to be seen
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=lambda: timed_loop(lag)) as runner:
        runner.run(work())
    assert count_above(lag, "0.1") == blocks


def test_waiting_is_not_being_busy() -> None:
    lag = LoopLag()
    with asyncio.Runner(loop_factory=lambda: timed_loop(lag)) as runner:
        runner.run(asyncio.sleep(0.15))
    assert count_above(lag, "0.1") == 0


def test_a_long_turn_is_written_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    lag = LoopLag()
    with caplog.at_level(logging.WARNING):
        lag.note(0.24)
        lag.note(0.31)
    assert [record.getMessage() for record in caplog.records] == [
        "the event loop was busy for 310 ms"
    ]


def test_buckets_add_up() -> None:
    lag = LoopLag()
    for busy_s in (0.0001, 0.004, 0.004, 2.0):
        lag.note(busy_s)
    registry = CollectorRegistry()
    registry.register(lag)
    text = generate_latest(registry).decode()
    assert 'sori_loop_busy_seconds_bucket{le="0.005"} 3.0' in text
    assert "sori_loop_busy_seconds_count 4.0" in text
    assert registry.get_sample_value("sori_loop_busy_seconds_sum") == pytest.approx(2.0081)
