"""A link's pool: fixed slots of shared memory, written by one worker and read by the next.

Ownership: the producer's side (`PoolWriter`) owns the free list. A slot is lent with a `Lease`,
which is all that crosses the pipe, and comes back when the consumer has let go of it. Each lending
gives the slot a new generation, each life of the producer a new epoch; both stand in the slot's
header, so a lease from before cannot be mistaken for one of now.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from pipeline.memory import PAGE_NBYTES, SharedMemory
from pipeline.plain import Plain
from pipeline.stage import Array

EXPORT_NBYTES = 72
"""Room in front of the slots for what else the producer tells its consumer: see `cuda_pool`."""

INLINE_NBYTES = 4096
"""Payloads up to this size ride in the control message: a slot would cost more than the copy."""


class StaleLease(Exception):
    """The slot has been lent again, or its producer has been restarted, since this lease."""


@dataclass(frozen=True, slots=True)
class Inline(Plain):
    """A small payload, in the message itself."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lease(Plain):
    """The right to read one slot until it is released."""

    slot: int
    generation: int
    epoch: int
    dtype: str
    shape: tuple[int, ...]


Payload = Inline | Lease


@dataclass(frozen=True, slots=True)
class PoolLayout(Plain):
    """Shape of a pool: what producer and consumer must agree on."""

    slots: int
    slot_nbytes: int

    @property
    def stride(self) -> int:
        """Distance of two slots, a whole number of pages."""
        return -(-self.slot_nbytes // PAGE_NBYTES) * PAGE_NBYTES

    @property
    def header_nbytes(self) -> int:
        """The (epoch, generation) pairs in front of the slots, and the export after them."""
        return -(-(self.slots * 16 + EXPORT_NBYTES) // PAGE_NBYTES) * PAGE_NBYTES

    @property
    def nbytes(self) -> int:
        """Size of the whole pool."""
        return self.header_nbytes + self.slots * self.stride

    def create(self) -> SharedMemory:
        """Allocate the pool, once, in the server process."""
        return SharedMemory(self.nbytes)

    def headers(self, memory: SharedMemory) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
        """The header table, uint64 [slots, 2]: epoch and generation."""
        return np.frombuffer(memory.map, np.uint64, self.slots * 2).reshape(self.slots, 2)

    def export(self, memory: SharedMemory) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """Bytes that the producer writes once in its life."""
        return np.frombuffer(memory.map, np.uint8, EXPORT_NBYTES, offset=self.slots * 16)


class PoolWriter:
    """The producer's side: free list, credits, and the copy into a slot. One thread uses it.

    borrowed: slots that are still with a consumer from an earlier life of the producer.
    """

    def __init__(
        self,
        layout: PoolLayout,
        memory: SharedMemory,
        epoch: int,
        credits_per_request: int,
        borrowed: tuple[Lease, ...] = (),
    ) -> None:
        self.layout = layout
        self.epoch = epoch
        self.credits_per_request = credits_per_request
        self._memory = memory
        self._headers = layout.headers(memory)
        self._lent: dict[int, tuple[int, int]] = {
            lease.slot: (lease.epoch, lease.generation) for lease in borrowed
        }
        self._owner: dict[int, str] = {}
        self._held: dict[str, int] = {}
        # A stack: the slots used last are warm in the cache, and slots never needed are never
        # touched, so a pool that is large enough for every request costs only what is in use.
        self._free = [slot for slot in reversed(range(layout.slots)) if slot not in self._lent]

    @property
    def free(self) -> int:
        """Slots that can be lent now."""
        return len(self._free)

    def has_credit(self, request_id: str) -> bool:
        """Whether the request may take another slot now."""
        return bool(self._free) and self._held.get(request_id, 0) < self.credits_per_request

    def write(self, request_id: str, array: Array) -> Lease:
        """Copy an array of at most `slot_nbytes` into a free slot. Needs `has_credit`."""
        slot, generation = self._take(request_id, array.nbytes)
        offset = self.layout.header_nbytes + slot * self.layout.stride
        target: Array = np.frombuffer(
            self._memory.map, array.dtype, array.size, offset=offset
        ).reshape(array.shape)
        np.copyto(target, array)
        return Lease(slot, generation, self.epoch, array.dtype.str, array.shape)

    def _take(self, request_id: str, nbytes: int) -> tuple[int, int]:
        """Lend a free slot; returns it and its new generation."""
        if nbytes > self.layout.slot_nbytes:
            raise ValueError(f"{nbytes} bytes do not fit a slot of {self.layout.slot_nbytes}")
        slot = self._free.pop()
        generation = int(self._headers[slot, 1]) + 1
        self._headers[slot] = self.epoch, generation
        self._lent[slot] = (self.epoch, generation)
        self._owner[slot] = request_id
        self._held[request_id] = self._held.get(request_id, 0) + 1
        return slot, generation

    def release(self, lease: Lease) -> None:
        """Take a slot back. Raises StaleLease if it is not lent under this lease."""
        if self._lent.get(lease.slot) != (lease.epoch, lease.generation):
            raise StaleLease(f"slot {lease.slot} is not lent at generation {lease.generation}")
        del self._lent[lease.slot]
        self._free.append(lease.slot)
        owner = self._owner.pop(lease.slot, None)
        if owner in self._held:
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]

    def orphan(self, request_id: str) -> None:
        """The request is over: its slots come back as they are released, for nobody's account."""
        self._held.pop(request_id, None)


class PoolReader:
    """The consumer's side: read-only views of leased slots, in place."""

    def __init__(self, layout: PoolLayout, memory: SharedMemory) -> None:
        self.layout = layout
        self._memory = memory
        self._headers = layout.headers(memory)

    def view(self, lease: Lease) -> Array:
        """The payload where it lies. Raises StaleLease if the slot has moved on."""
        if type(lease) is not Lease:
            raise StaleLease(f"slot {lease.slot} lies on a device that this worker has no way to")
        self._check(lease)
        offset = self.layout.header_nbytes + lease.slot * self.layout.stride
        array: Array = np.frombuffer(
            self._memory.map, np.dtype(lease.dtype), prod(lease.shape), offset=offset
        ).reshape(lease.shape)
        array.flags.writeable = False
        return array

    def finish(self) -> None:
        """The step is over: its views are not looked at any more, and may be given back."""

    def _check(self, lease: Lease) -> None:
        epoch, generation = self._headers[lease.slot]
        if (int(epoch), int(generation)) != (lease.epoch, lease.generation):
            raise StaleLease(f"slot {lease.slot} has moved on from generation {lease.generation}")


def host_array(array: Any) -> Array:
    """A payload in the host's memory: as it is, or copied there if it is a tensor on a device."""
    if isinstance(array, np.ndarray):
        return array
    host: Array = array.detach().cpu().numpy()
    return host


def inline(array: Array) -> Inline:
    """Pack a small array into the message."""
    return Inline(array.tobytes(), array.dtype.str, array.shape)


def unpack(payload: Payload | None, reader: PoolReader | None) -> Array | None:
    """The array of a payload: in place for a lease, from the message otherwise."""
    if payload is None:
        return None
    if isinstance(payload, Inline):
        array: Array = np.frombuffer(payload.data, np.dtype(payload.dtype)).reshape(payload.shape)
        return array
    if reader is None:
        raise StaleLease("a lease came over a link that has no pool")
    return reader.view(payload)


def cut(array: Array, slot_nbytes: int) -> list[Array]:
    """Split along axis 0 so that each part fits a slot."""
    if array.nbytes <= max(slot_nbytes, INLINE_NBYTES):
        return [array]
    row_nbytes = array.nbytes // array.shape[0]
    rows = slot_nbytes // row_nbytes
    if rows == 0:
        raise ValueError(f"a row of {row_nbytes} bytes does not fit a slot of {slot_nbytes}")
    return [array[i : i + rows] for i in range(0, array.shape[0], rows)]
