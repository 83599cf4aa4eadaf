"""Memory without a name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pipeline.memory import PAGE_NBYTES, SharedMemory

CHILD = """
import sys
from pipeline.memory import SharedMemory
memory = SharedMemory(int(sys.argv[2]), int(sys.argv[1]))
assert memory.map[:5] == b"hello"
memory.map[:5] = b"there"
"""


def test_a_child_given_the_descriptor_shares_the_pages() -> None:
    memory = SharedMemory(100)
    assert memory.nbytes == PAGE_NBYTES
    memory.map[:5] = b"hello"
    arguments = [sys.executable, "-c", CHILD, str(memory.fd), str(memory.nbytes)]
    subprocess.run(arguments, pass_fds=[memory.fd], check=True)
    assert memory.map[:5] == b"there"
    memory.close()


def test_the_memory_has_no_name_that_could_outlive_it() -> None:
    before = set(os.listdir("/dev/shm")) if Path("/dev/shm").exists() else set()
    memory = SharedMemory(1 << 20)
    after = set(os.listdir("/dev/shm")) if Path("/dev/shm").exists() else set()
    assert after == before
    memory.close()
    memory.close()
    assert memory.fd == -1
