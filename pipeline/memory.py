"""Anonymous shared memory: pages without a name, handed to workers as a file descriptor.

A named segment can outlive a killed server, collide with another server's, and be unlinked by a
stranger that attaches it. Memory without a name can do none of this: it is gone when the last
process that maps it is.
"""

from __future__ import annotations

import mmap
import os
import tempfile

PAGE_NBYTES = 4096


class SharedMemory:
    """A mapping of `nbytes` that other processes can map too, given its descriptor."""

    def __init__(self, nbytes: int, fd: int | None = None) -> None:
        """Create the memory, or map an existing one by a descriptor, which is then owned."""
        self.nbytes = -(-nbytes // PAGE_NBYTES) * PAGE_NBYTES
        if fd is None:
            fd = _anonymous_file(self.nbytes)
        self.fd = fd
        self.map = mmap.mmap(fd, self.nbytes)

    def close(self) -> None:
        """Close the descriptor; the pages stay mapped as long as an array looks at them."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _anonymous_file(nbytes: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("sori-pool", os.MFD_CLOEXEC)
    else:  # no memfd on this system: a file that has lost its name before anyone could open it
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, nbytes)
    return fd
