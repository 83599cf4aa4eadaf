"""What a server has left behind: its processes, and names in /dev/shm."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PROC = Path("/proc")
SHM = Path("/dev/shm")
POLL_S = 0.02


def processes() -> dict[int, tuple[int, str]]:
    """Parent and command line of every living process, by its id."""
    found: dict[int, tuple[int, str]] = {}
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold anything; what follows it is fixed.
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # gone meanwhile
        if state != "Z":
            found[int(entry.name)] = (int(parent), command)
    return found


def workers_of(server: int) -> dict[int, str]:
    """Command lines of a process's children and theirs, by id."""
    everything = processes()
    found: dict[int, str] = {}
    parents = {server}
    while parents:
        children = {pid for pid, (parent, _) in everything.items() if parent in parents}
        found |= {pid: everything[pid][1] for pid in children}
        parents = children
    return found


def worker_of(server: int, stage: str) -> int:
    """Process id of a stage's worker. Raises AssertionError unless there is exactly one."""
    (pid,) = [pid for pid, command in workers_of(server).items() if stage in command.split()]
    return pid


def shared_names() -> set[str]:
    """Names in /dev/shm, without those of browsers that other tests run."""
    if not SHM.is_dir():
        return set()
    return {entry.name for entry in SHM.iterdir() if "chromium" not in entry.name.lower()}


def wait_until(condition: Callable[[], bool], deadline_s: float, what: str) -> None:
    """Poll. Raises AssertionError naming what did not come true."""
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, f"{what}: not within {deadline_s:g} s"
        time.sleep(POLL_S)
