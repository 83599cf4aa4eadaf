"""What a measurement was made on: a number without its machine means nothing."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def describe_machine() -> dict[str, Any]:
    """Cores this process may use, the processor's name, memory, system, Python and Sori."""
    return {
        "cores": usable_cores(),
        "cpu": processor_name(),
        "memory_gib": memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sori": _version(),
    }


def usable_cores() -> int:
    """Cores this process is allowed on, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_name() -> str:
    """As the system tells it."""
    table = Path("/proc/cpuinfo")
    if table.is_file():
        for line in table.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def memory_gib() -> float:
    """Physical memory."""
    pages: int = os.sysconf("SC_PHYS_PAGES")
    page_nbytes: int = os.sysconf("SC_PAGE_SIZE")
    return round(pages * page_nbytes / 2**30, 1)


def _version() -> str:
    try:
        return version("sori")
    except PackageNotFoundError:
        return "not installed"
