"""Each way of the handoff bench really hands the bytes over."""

from __future__ import annotations

import pytest

from bench.handoff import WAYS, measure


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("nbytes", [4096, 1 << 20])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_consumer_reads_what_the_producer_wrote(way: str, nbytes: int) -> None:
    measured = measure(way, nbytes, touched=True, seconds=0.05)
    assert measured.latency_us > 0
    assert measured.mb_per_s > 0
