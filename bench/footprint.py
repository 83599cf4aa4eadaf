"""What a server holds while it rests: memory, descriptors and threads of each process, and counts.

Read from /proc and from the server's own metrics. Linux only.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.scrape import scrape
from bench.server import Server

PROC = Path("/proc")
SHM = Path("/dev/shm")
POLL_S = 0.01
SERVER = "server"
UNDER_WAY = (
    "sori_sessions",
    "sori_requests",
    "sori_listeners",
    "sori_synthesis_running",
    "sori_synthesis_waiting",
    "sori_worker_requests",
    "sori_link_slots_lent",
)
"""All of these are zero when nothing is under way; those with labels are added up."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process now. rss_kib: resident, shared pages of the pools included."""

    pid: int
    rss_kib: int
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """A server now: its processes by name ("server", or the stage), tasks, names in /dev/shm."""

    processes: dict[str, Process]
    tasks: int
    shared_names: int

    def counts(self) -> dict[str, int]:
        """What must be at the end what it was at the start."""
        everyone = self.processes.values()
        return {
            "processes": len(self.processes),
            "descriptors": sum(one.descriptors for one in everyone),
            "threads": sum(one.threads for one in everyone),
            "tasks": self.tasks,
            "shared_names": self.shared_names,
        }


@dataclass(frozen=True, slots=True)
class Growth:
    """One process when it was new, in the middle of all looks or new if later, and at the end."""

    first: Process
    middle: Process
    last: Process

    @property
    def percent(self) -> float:
        """Growth of its memory since it was new."""
        return (self.last.rss_kib / self.first.rss_kib - 1) * 100

    @property
    def late_percent(self) -> float:
        """Growth since the middle."""
        return (self.last.rss_kib / self.middle.rss_kib - 1) * 100


def compare(looks: Sequence[Footprint]) -> dict[str, Growth]:
    """What has become of the memory of each process that is there at the end."""
    found = {}
    for name, last in looks[-1].processes.items():
        seen = [look.processes[name] for look in looks]
        born = next(index for index, one in enumerate(seen) if one.pid == last.pid)
        if 0 < born < len(seen) - 1:
            born += 1  # at the first look a successor has seen only half of a round
        found[name] = Growth(seen[born], seen[max(born, len(seen) // 2)], last)
    return found


def read_footprint(server: Server) -> Footprint:
    """Look at all of it. Raises OSError when a process goes meanwhile."""
    pids = {SERVER: server.process.pid, **workers(server)}
    return Footprint(
        {name: read_process(pid) for name, pid in pids.items()},
        int(scrape(server)["sori_tasks"]),
        len(os.listdir(SHM)) if SHM.is_dir() else 0,
    )


def workers(server: Server) -> dict[str, int]:
    """Process ids by stage."""
    found = {}
    for children in PROC.glob(f"{server.process.pid}/task/*/children"):
        for pid in children.read_text(encoding="ascii").split():
            command = (PROC / pid / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            found[command[-1].decode()] = int(pid)
    return found


def read_process(pid: int) -> Process:
    """One process. Raises OSError when it is gone."""
    folder = PROC / str(pid)
    lines = (folder / "status").read_text(encoding="utf-8").splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    return Process(
        pid,
        int(status["VmRSS"].split()[0]),
        len(os.listdir(folder / "fd")),
        int(status["Threads"]),
    )


def under_way(metrics: Mapping[str, float]) -> dict[str, float]:
    """What is not zero of what should be, by the metric's name."""
    sums = {
        name: sum(value for key, value in metrics.items() if key.partition("{")[0] == name)
        for name in UNDER_WAY
    }
    return {name: value for name, value in sums.items() if value}


async def wait_for_rest(server: Server, patience_s: float) -> tuple[float, dict[str, float]]:
    """Wait until nothing is under way: seconds that took, and what still is after `patience_s`."""
    began_s = time.monotonic()
    while True:
        left = under_way(await asyncio.to_thread(scrape, server))
        waited_s = time.monotonic() - began_s
        if not left or waited_s > patience_s:
            return waited_s, left
        await asyncio.sleep(POLL_S)
