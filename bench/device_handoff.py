"""Tensors on a GPU handed to another process: by the host's pool, and by one on the device.

Both begin with a tensor on the device and end when the consumer has added it up there. The host's
pool copies it to the host, into a slot, and to the device again; the other copies it once, there.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import IO, Any

from pipeline.cuda_pool import CudaPoolReader, CudaPoolWriter, DeviceLease
from pipeline.cuda_runtime import CudaError, CudaRuntime
from pipeline.memory import SharedMemory
from pipeline.pool import PoolLayout, PoolReader, PoolWriter, host_array

SIZES = {"row of 8 KiB": 8 << 10, "prompt of 1 MiB": 1 << 20}
ROUNDS, WARM_UP = 200, 20
SLOTS = 2


@dataclass(frozen=True, slots=True)
class Work:
    """What a consumer is told first. on_device: which of the two pools."""

    layout: PoolLayout
    fd: int
    device: str
    on_device: bool


def handoff_lines(device: str) -> list[str]:
    """A row for each size, or one line that says why there is none.

    Raises OSError if a consumer ends too early.
    """
    what = "host pool against CUDA IPC"
    if not device.startswith("cuda"):
        return [f"{what}: skipped, no GPU: the stages are on {device}"]
    try:
        CudaRuntime().can_access_peer(0, 0)
    except CudaError as error:
        return [f"{what}: skipped, no GPU: {error}"]
    lines = [f"{what}, of a tensor on {device}, there and back:"]
    for name, nbytes in SIZES.items():
        try:
            host, ipc = (round_trip_us(nbytes, device, on_device=way) for way in (False, True))
        except CudaError as error:
            return [f"{what}: failed: {error}"]
        lines.append(f"{name:26}{host:>12.0f} µs{ipc:>12.0f} µs")
    return lines


def round_trip_us(nbytes: int, device: str, *, on_device: bool) -> float:
    """Median of handing over a tensor of so many bytes and hearing that it was added up."""
    import torch

    layout = PoolLayout(SLOTS, nbytes)
    memory = layout.create()
    pool = (layout, memory, 1, SLOTS, ())
    index = torch.device(device).index or 0
    writer = (
        CudaPoolWriter(*pool, CudaRuntime(), (index, index)) if on_device else PoolWriter(*pool)
    )
    tensor = torch.ones(nbytes // 4, dtype=torch.float32, device=device)
    taken: list[float] = []
    with subprocess.Popen(
        [sys.executable, "-m", "bench.device_handoff"],
        pass_fds=[memory.fd],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as consumer:
        assert consumer.stdin is not None and consumer.stdout is not None
        _tell(consumer.stdin, Work(layout, memory.fd, device, on_device))
        for _ in range(WARM_UP + ROUNDS):
            began_s = time.perf_counter()
            payload: Any = tensor if on_device else host_array(tensor)
            lease = writer.write("bench", payload)
            _tell(consumer.stdin, lease)
            try:
                total = pickle.load(consumer.stdout)
            except EOFError:
                raise OSError("the consumer of a hand-off has ended") from None
            taken.append(time.perf_counter() - began_s)
            writer.release(lease)
            if total != nbytes // 4:
                raise OSError(f"the consumer of a hand-off has read {total}")
        consumer.stdin.close()
    memory.close()
    return 1e6 * median(taken[WARM_UP:])


def _tell(pipe: IO[bytes], message: object) -> None:
    pipe.write(pickle.dumps(message))
    pipe.flush()


def consume() -> None:
    """The other process: until its standard input ends."""
    import torch

    source, target = sys.stdin.buffer, sys.stdout.buffer
    # Any, as this module runs as __main__, and its classes are other ones than the sender's.
    work: Any = pickle.load(source)
    memory = SharedMemory(work.layout.nbytes, work.fd)
    device = torch.device(work.device)
    reader = (
        CudaPoolReader(work.layout, memory, CudaRuntime(), device.index or 0)
        if work.on_device
        else PoolReader(work.layout, memory)
    )
    while True:
        try:
            lease = pickle.load(source)
        except EOFError:
            return
        view = reader.view(lease)
        # PyTorch warns of an array that is read-only, as views of the host's pool are.
        array = view if isinstance(lease, DeviceLease) else view.copy()
        total = float(torch.as_tensor(array, device=device).sum())
        reader.finish()
        _tell(target, total)


if __name__ == "__main__":
    consume()
