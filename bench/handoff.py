"""`sori bench handoff`: what it costs to hand an array to another process.

Three ways: pickled through a pipe; a shared-memory segment made for each message; and the engine's
pool, with its free list, leases and small messages inline. Producer and consumer are processes.
The consumer adds up every byte ("touched"), or only looks at the array's shape ("untouched").
Latency is one message there and its answer back; throughput is with two messages under way.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory as Segment
from typing import Any, Protocol

import numpy as np

from bench.machine import describe_machine
from bench.report import print_report
from pipeline.pool import (
    INLINE_NBYTES,
    Inline,
    Lease,
    PoolLayout,
    PoolReader,
    PoolWriter,
    inline,
    unpack,
)
from pipeline.stage import Array

SIZES = {"4 KB row": 4096, "1 MB frames": 1 << 20, "12 MB prefill": 12 << 20}
UNDER_WAY = 2
WARM_UP = 8


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code."""
    arguments = build_parser().parse_args(argv)
    results: dict[str, dict[str, Measured]] = {}
    for size, nbytes in SIZES.items():
        for touched in (True, False):
            name = f"{size}, {'touched' if touched else 'untouched'}"
            print(f"  {name}", file=sys.stderr)
            # In turns, so that what else the machine does hits all of them.
            rounds = [
                {way: measure(way, nbytes, touched, arguments.seconds) for way in WAYS}
                for _ in range(arguments.rounds)
            ]
            results[name] = {way: _median([one[way] for one in rounds]) for way in WAYS}
    lines = [f"{'':24}  {'way':8}  {'latency µs':>10}  {'MB/s':>8}  {'pool is':>8}"]
    for name, ways in results.items():
        for way, measured in ways.items():
            ratio = ways["pool"].mb_per_s / measured.mb_per_s
            lines.append(
                f"{name:24}  {way:8}  {measured.latency_us:>10.0f}  {measured.mb_per_s:>8.0f}  "
                f"{ratio:>7.1f}x"
            )
    document = {
        name: {way: [round(m.latency_us, 1), round(m.mb_per_s)] for way, m in ways.items()}
        for name, ways in results.items()
    }
    print_report(
        lines, {"bench": "handoff", "machine": describe_machine(), "latency_us_mb_per_s": document}
    )
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench handoff`."""
    parser = argparse.ArgumentParser(prog="sori bench handoff", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements, of which the median")
    return parser


@dataclass(frozen=True, slots=True)
class Measured:
    """Microseconds there and back, and megabytes a second one way."""

    latency_us: float
    mb_per_s: float


def _median(measured: Sequence[Measured]) -> Measured:
    return Measured(
        float(np.median([one.latency_us for one in measured])),
        float(np.median([one.mb_per_s for one in measured])),
    )


# -- the three ways --------------------------------------------------------------------------------


class Sender(Protocol):
    """The producer's end."""

    def send(self, array: Array) -> None:
        """Hand it over."""

    def take_answer(self) -> int:
        """Wait for the consumer to be done with the oldest one; what it added up."""

    def close(self) -> None:
        """Free what is left."""


class PipeSender:
    """Pickle, and the kernel's copies."""

    def __init__(self, pipe: Connection, nbytes: int) -> None:
        self._pipe = pipe

    def send(self, array: Array) -> None:
        """Through the pipe."""
        self._pipe.send(array)

    def take_answer(self) -> int:
        """The sum."""
        return int(self._pipe.recv())

    def close(self) -> None:
        """Nothing is held."""


class SegmentSender:
    """A segment for each message, as multiprocessing offers it."""

    def __init__(self, pipe: Connection, nbytes: int) -> None:
        self._pipe = pipe
        self._segments: list[Segment] = []

    def send(self, array: Array) -> None:
        """Make a segment, copy into it, and tell its name."""
        segment = Segment(create=True, size=array.nbytes)
        target: Array = np.ndarray(array.shape, array.dtype, segment.buf)
        target[:] = array
        del target
        self._segments.append(segment)
        self._pipe.send((segment.name, array.dtype.str, array.shape))

    def take_answer(self) -> int:
        """The sum; the segment is gone then."""
        total = int(self._pipe.recv())
        segment = self._segments.pop(0)
        segment.close()
        segment.unlink()
        return total

    def close(self) -> None:
        """Drop what nobody answered."""
        for segment in self._segments:
            segment.close()
            segment.unlink()


class PoolSender:
    """The engine's pool: the memory is there already, only a lease crosses."""

    def __init__(self, pipe: Connection, nbytes: int) -> None:
        self._pipe = pipe
        layout = PoolLayout(2 * UNDER_WAY, nbytes)
        memory = layout.create()
        self.reader = PoolReader(layout, memory)  # the consumer's, which is forked with it
        self._writer = PoolWriter(layout, memory, epoch=1, credits_per_request=2 * UNDER_WAY)

    def send(self, array: Array) -> None:
        """Copy into a free slot, or into the message if it is small."""
        small = array.nbytes <= INLINE_NBYTES
        self._pipe.send(inline(array) if small else self._writer.write("bench", array))

    def take_answer(self) -> int:
        """The sum, and the slot back."""
        total, lease = self._pipe.recv()
        if lease is not None:
            self._writer.release(lease)
        return int(total)

    def close(self) -> None:
        """The memory has no name."""


def _receive_pipe(pipe: Connection, add: Callable[[Array], int], sender: Any) -> None:
    while (array := pipe.recv()) is not None:
        pipe.send(add(array))


def _receive_segments(pipe: Connection, add: Callable[[Array], int], sender: Any) -> None:
    while (message := pipe.recv()) is not None:
        name, dtype, shape = message
        segment = Segment(name=name)
        array: Array = np.ndarray(shape, dtype, segment.buf)
        total = add(array)
        del array
        segment.close()
        pipe.send(total)


def _receive_leases(pipe: Connection, add: Callable[[Array], int], sender: Any) -> None:
    while (payload := pipe.recv()) is not None:
        assert isinstance(payload, Inline | Lease)
        array = unpack(payload, sender.reader)
        assert array is not None
        pipe.send((add(array), payload if isinstance(payload, Lease) else None))


WAYS: dict[str, tuple[Callable[[Connection, int], Sender], Callable[..., None]]] = {
    "pickle": (PipeSender, _receive_pipe),
    "segment": (SegmentSender, _receive_segments),
    "pool": (PoolSender, _receive_leases),
}


# -- measuring -------------------------------------------------------------------------------------


def _add_up(array: Array) -> int:
    """Every byte, eight at a time."""
    return int(array.view(np.uint64).sum(dtype=np.uint64))


def _look(array: Array) -> int:
    return array.size


def measure(way: str, nbytes: int, touched: bool, seconds: float) -> Measured:
    """One way, one size. Raises ValueError if the consumer has read something else."""
    make, receive = WAYS[way]
    context = multiprocessing.get_context("fork")
    # Forked with this process, it is one for both: two would each warn of the other's segments.
    resource_tracker.ensure_running()
    ours, theirs = context.Pipe()
    sender = make(ours, nbytes)
    work = (theirs, _add_up if touched else _look, sender)
    consumer = context.Process(target=receive, args=work, daemon=True)
    consumer.start()
    theirs.close()
    array = np.arange(nbytes // 8, dtype=np.uint64).view(np.float32)
    expected = _add_up(array) if touched else array.size
    try:
        latency_s = _round_trips(sender, array, expected, seconds / 2)
        per_s = _flow(sender, array, expected, seconds / 2)
    finally:
        ours.send(None)
        consumer.join()
        sender.close()
        ours.close()
    return Measured(latency_s * 1e6, per_s * nbytes / 1e6)


def _round_trips(sender: Sender, array: Array, expected: int, seconds: float) -> float:
    """Median seconds of one message and its answer."""
    taken: list[float] = []
    until_s = time.perf_counter() + seconds
    while len(taken) < WARM_UP * 2 or time.perf_counter() < until_s:
        began_s = time.perf_counter()
        sender.send(array)
        _check(sender, expected)
        taken.append(time.perf_counter() - began_s)
    return float(np.median(taken[WARM_UP:]))


def _flow(sender: Sender, array: Array, expected: int, seconds: float) -> float:
    """Messages a second, with two under way."""
    for _ in range(UNDER_WAY):
        sender.send(array)
    count = 0
    began_s = time.perf_counter()
    while count < WARM_UP or time.perf_counter() < began_s + seconds:
        _check(sender, expected)
        sender.send(array)
        count += 1
    elapsed_s = time.perf_counter() - began_s
    for _ in range(UNDER_WAY):
        _check(sender, expected)
    return count / elapsed_s


def _check(sender: Sender, expected: int) -> None:
    if (total := sender.take_answer()) != expected:
        raise ValueError(f"the consumer has read {total}, not {expected}")
