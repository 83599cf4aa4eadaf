"""What server and worker say to each other: small values, many to a frame.

A frame is a 4-byte little-endian length and a pickled list. Both ends are parts of one server, on
an unnamed socket pair, so pickle meets no stranger.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config import StageConfig
from pipeline.messages import StageMessage, Start
from pipeline.plain import Plain
from pipeline.pool import Lease, Payload, PoolLayout
from pipeline.watermarking import Mark

HEADER_NBYTES = 4


@dataclass(frozen=True, slots=True)
class PoolPort(Plain):
    """One end of a link's pool, as a worker gets it: its layout and the memory's descriptor.

    devices: the producer's GPU and the consumer's, if payloads may stay on them.
    """

    layout: PoolLayout
    fd: int
    devices: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class WorkerSpec(Plain):
    """Everything a worker needs to begin. Sent as the first frame."""

    name: str
    stage: StageConfig
    home: Path
    epoch: int
    gated: bool
    credits_per_request: int
    output_window: int
    beat_interval_s: float
    inbound: PoolPort | None
    outbound: PoolPort | None
    borrowed: tuple[Lease, ...] = ()
    mark: Mark | None = None
    trace: Path | None = None


# -- server → worker -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Open(Plain):
    """Begin a request."""

    start: Start


@dataclass(frozen=True, slots=True)
class Feed(Plain):
    """An input of a request, or a part of one."""

    request_id: str
    message: StageMessage
    payload: Payload | None = None
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Permit(Plain):
    """The request may do one step (of a stage that is gated by the synthesis semaphore)."""

    request_id: str
    lead_ms: float


@dataclass(frozen=True, slots=True)
class Close(Plain):
    """Drop the request, whatever it is doing."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Credit(Plain):
    """The server has taken this many emitted messages off its queue."""

    request_id: str
    messages: int


@dataclass(frozen=True, slots=True)
class Release(Plain):
    """A slot of the worker's output pool is free again."""

    lease: Lease


# -- worker → server -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ready(Plain):
    """Weights are loaded."""

    load_s: float


@dataclass(frozen=True, slots=True)
class LoadFailed(Plain):
    """The worker cannot serve; it exits after this."""

    message: str


@dataclass(frozen=True, slots=True)
class Beat(Plain):
    """Sign of life. step_s: how long the running step has been going; 0 when idle."""

    step_s: float


@dataclass(frozen=True, slots=True)
class Emit(Plain):
    """An output of a request, or a part of one."""

    request_id: str
    message: StageMessage
    payload: Payload | None = None
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Stepped(Plain):
    """A step of this request is over: inputs it took, and whether it has more to do."""

    request_id: str
    consumed: int
    more: bool


@dataclass(frozen=True, slots=True)
class Consumed(Plain):
    """An input's slot is no longer looked at."""

    lease: Lease


def pack(messages: list[Any]) -> bytes:
    """One frame."""
    body = pickle.dumps(messages, protocol=pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(HEADER_NBYTES, "little") + body


class FrameReader:
    """Bytes in, messages out; keeps an unfinished frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def receive_data(self, data: bytes) -> Iterator[Any]:
        """Yield the messages of every frame completed by `data`."""
        self._buffer += data
        while len(self._buffer) >= HEADER_NBYTES:
            end = HEADER_NBYTES + int.from_bytes(self._buffer[:HEADER_NBYTES], "little")
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[HEADER_NBYTES:end])
            del self._buffer[:end]
            yield from pickle.loads(body)
