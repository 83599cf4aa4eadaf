"""What the server counts, in one place, in Prometheus' text format."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LATENCY_BUCKETS_S = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)


class Metrics:
    """One registry per server, so that two in one process do not share counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sessions = Gauge("sori_sessions", "open realtime sessions", registry=self.registry)
        self.sessions_refused = Counter(
            "sori_sessions_refused", "connections refused", ["reason"], registry=self.registry
        )
        self.errors = Counter(
            "sori_client_errors", "error events sent", ["code"], registry=self.registry
        )
        self.responses = Counter(
            "sori_responses", "finished responses", ["status"], registry=self.registry
        )
        self.first_audio = Histogram(
            "sori_first_audio_seconds",
            "end of the user's voice, or start of the response, to its first audio sent",
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.underruns = Counter(
            "sori_underruns", "times playback overtook synthesis", registry=self.registry
        )
        self.tasks = Gauge("sori_tasks", "tasks of the event loop", registry=self.registry)
        self.tasks.set_function(_tasks)
        self.ready = Gauge("sori_ready", "1 when the server takes sessions", registry=self.registry)

    def watch_ready(self, read: Callable[[], float]) -> None:
        """Have the ready gauge ask when it is scraped."""
        self.ready.set_function(read)

    def render(self) -> bytes:
        """The exposition that `/metrics` answers."""
        return generate_latest(self.registry)


def _tasks() -> float:
    try:
        return float(len(asyncio.all_tasks()))
    except RuntimeError:  # nobody scrapes: it is asked outside of the loop
        return 0.0
