"""What a server tells about itself: its metrics, and what the system knows of its processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bench.server import Server

LOOP = "sori_loop_busy_seconds"


def scrape(server: Server) -> dict[str, float]:
    """Every sample of `/metrics`: a name, and its labels if it has any. Raises OSError."""
    _, text = server.get("/metrics")
    return {
        sample.name + (str(dict(sorted(sample.labels.items()))) if sample.labels else ""): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def loop_busy_ms(before: Mapping[str, float], after: Mapping[str, float], share: float) -> float:
    """The bound, in ms, below which this share of the loop's turns stayed between two scrapes."""
    turns: list[tuple[float, float]] = []
    for name, value in after.items():
        if name.startswith(LOOP + "_bucket"):
            bound = float(name.split("'")[3])
            turns.append((bound, value - before.get(name, 0.0)))
    turns.sort()
    if not turns or not turns[-1][1]:
        return 0.0
    return next(bound for bound, count in turns if count >= share * turns[-1][1]) * 1000


def cpu_s(pid: int) -> float:
    """Seconds of a core that this process has used so far. Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
