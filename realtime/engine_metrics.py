"""The engine's state at the moment it is asked, for `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pipeline.engine import EngineStats
from pipeline.worker import WorkerState


class EngineCollector(Collector):
    """Reads `stats` when it is scraped: nothing is counted twice."""

    def __init__(self, stats: Callable[[], EngineStats]) -> None:
        self._stats = stats

    def describe(self) -> list[Metric]:
        """Nothing is asked before the engine is there."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Workers, links, requests and the synthesis semaphore."""
        stats = self._stats()
        yield from _workers(stats)
        yield from _links(stats)
        for name, text, value in (
            ("sori_requests", "requests in the engine", stats.requests),
            ("sori_listeners", "sessions in the ears", stats.listeners),
            ("sori_synthesis_running", "syntheses with a permit", stats.synthesis_running),
            ("sori_synthesis_waiting", "syntheses that wait for one", stats.synthesis_waiting),
            (
                "sori_synthesis_longest_wait_seconds",
                "how long the first of them has waited",
                stats.synthesis_longest_wait_s,
            ),
        ):
            gauge = GaugeMetricFamily(name, text)
            gauge.add_metric([], value)
            yield gauge


def _workers(stats: EngineStats) -> Iterator[Metric]:
    ready = GaugeMetricFamily("sori_worker_ready", "1 when the stage serves", labels=["stage"])
    restarts = CounterMetricFamily("sori_worker_restarts", "starts again", labels=["stage"])
    requests = GaugeMetricFamily("sori_worker_requests", "requests open", labels=["stage"])
    for name, worker in stats.workers.items():
        ready.add_metric([name], float(worker.state is WorkerState.READY))
        restarts.add_metric([name], worker.restarts)
        requests.add_metric([name], worker.requests)
    yield from (ready, restarts, requests)


def _links(stats: EngineStats) -> Iterator[Metric]:
    slots = GaugeMetricFamily("sori_link_slots", "slots of the link's pool", labels=["link"])
    lent = GaugeMetricFamily("sori_link_slots_lent", "slots in use", labels=["link"])
    for name, link in stats.links.items():
        slots.add_metric([name], link.slots)
        lent.add_metric([name], link.lent)
    yield from (slots, lent)
