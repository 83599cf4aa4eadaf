"""The entry of a worker process: `python -m pipeline.worker_process FD NAME`.

Imports nothing heavy itself; the stage does, after the thread limits of its libraries are set.
"""

from __future__ import annotations

import signal
import socket
import sys

from pipeline.control import WorkerSpec
from pipeline.memory import SharedMemory
from pipeline.runner import ControlSocket, ServerGone, build_runner


def main(fd: int) -> None:
    """Serve the stage described by the first frame on the socket `fd` until it closes."""
    # A terminal's Ctrl-C and a supervisor's SIGTERM reach the whole group. Replies in progress may
    # still be finishing: the server decides when a worker ends, by closing its socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = ControlSocket(socket.socket(fileno=fd))
    try:
        spec = control.receive_first()
    except ServerGone:
        return
    assert isinstance(spec, WorkerSpec)
    pools = [
        SharedMemory(port.layout.nbytes, port.fd) if port else None
        for port in (spec.inbound, spec.outbound)
    ]
    build_runner(spec, control, *pools).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
