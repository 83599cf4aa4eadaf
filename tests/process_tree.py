"""What a server has left behind: its processes, and names in /dev/shm."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PROC = Path("/proc")
SHM = Path("/dev/shm")
POLL_S = 0.02


def processes_of(session: int) -> dict[int, str]:
    """Command line by id of every living process of a session, orphans included.

    A server started by `bench.server` leads a session, which its workers never leave.
    """
    found: dict[int, str] = {}
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold anything; what follows it is fixed.
            state, _, _, sid = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # gone meanwhile
        if int(sid) == session and state != "Z":
            found[int(entry.name)] = command
    return found


def workers_of(session: int) -> dict[int, str]:
    """The processes of a session without its leader."""
    found = processes_of(session)
    found.pop(session, None)
    return found


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
