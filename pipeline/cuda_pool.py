"""A link's pool between two stages on GPUs of one machine: payloads stay on the device.

The producer owns a slab, allocated with its first payload that lies on a device, once for its life,
and mapped by the consumer through CUDA IPC.
Slots, credits, generations and epochs are those of `pipeline/pool.py`, in its shared memory, where
the slab's handle lies too: a consumer that meets a lease of a new epoch maps the new slab.

A payload that has `__cuda_array_interface__` goes through the slab and comes out as one, on the
consumer's side a `DeviceArray`; a NumPy array takes the host's slot of the same number.

Both sides wait for their device before a lease changes hands: the producer before it lends, the
consumer before it gives back. So no event is shared, which nobody would complete if its process
died, and whose waiters would hang with it. A dead producer's slab stays mapped until its consumer
meets the successor's; its leases that were not mapped by then are stale.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from pipeline.config import StageConfig
from pipeline.cuda_runtime import IPC_HANDLE_NBYTES, Cuda, CudaError
from pipeline.memory import SharedMemory
from pipeline.pool import Lease, PoolLayout, PoolReader, PoolWriter, StaleLease, host_array

log = logging.getLogger(__name__)

MAX_SLAB_NBYTES = 1 << 30
"""A slab is allocated whole, so it cannot have a slot for every request that may ever be there."""


@dataclass(frozen=True, slots=True)
class DeviceLease(Lease):
    """The right to read one slot of the slab until it is released."""


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """A payload on a device; `torch.as_tensor(array, device=…)` and CuPy take it in place.

    Valid during the step that it is given in.
    """

    pointer: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        # Stages read only; but PyTorch refuses what is marked as read-only.
        return {
            "shape": self.shape,
            "typestr": self.dtype,
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
        }


def devices_of(producer: StageConfig, consumer: StageConfig) -> tuple[int, int] | None:
    """Indices of both GPUs, if there are two processes with one each."""
    found = []
    for stage in (producer, consumer):
        kind, _, index = stage.device.partition(":")
        if kind != "cuda" or stage.placement != "process" or not (index or "0").isdigit():
            return None  # within one process memory cannot be mapped by a handle
        found.append(int(index or 0))
    return found[0], found[1]


class CudaPoolWriter(PoolWriter):
    """The producer's side. devices: its GPU and the consumer's.

    Raises CudaError if the consumer's could not read a slab.
    """

    def __init__(
        self,
        layout: PoolLayout,
        memory: SharedMemory,
        epoch: int,
        credits_per_request: int,
        borrowed: tuple[Lease, ...],
        cuda: Cuda,
        devices: tuple[int, int],
    ) -> None:
        super().__init__(layout, memory, epoch, credits_per_request, borrowed)
        self._cuda = cuda
        device, peer = devices
        if not cuda.can_access_peer(peer, device):
            raise CudaError(f"cuda:{peer} cannot read the memory of cuda:{device}")
        self._device = device
        self._export = layout.export(memory)
        self._slab: int | None = None  # 0: it could not be had

    def write(self, request_id: str, array: Any) -> Lease:
        """Copy an array of at most `slot_nbytes` into a free slot. Needs `has_credit`."""
        if isinstance(array, np.ndarray):
            return super().write(request_id, array)
        slab = self._allocate() if self._slab is None else self._slab
        if not slab:
            return super().write(request_id, host_array(array))
        interface = array.__cuda_array_interface__
        dtype, shape = str(interface["typestr"]), tuple(interface["shape"])
        nbytes = prod(shape) * np.dtype(dtype).itemsize
        if interface.get("strides") is not None:
            raise ValueError("a payload on a device must be contiguous")
        slot, generation = self._take(request_id, nbytes)
        self._cuda.synchronise()  # whatever stream it is made on
        self._cuda.copy(slab + slot * self.layout.stride, interface["data"][0], nbytes)
        self._cuda.synchronise()
        return DeviceLease(slot, generation, self.epoch, dtype, shape)

    def _allocate(self) -> int:
        try:
            self._cuda.use(self._device)
            self._slab = self._cuda.allocate(self.layout.slots * self.layout.stride)
            handle = self._cuda.export(self._slab)
        except CudaError as error:
            log.warning("payloads on cuda:%d go through the host's memory: %s", self._device, error)
            self._slab = 0
            return 0
        self._export[:IPC_HANDLE_NBYTES] = np.frombuffer(handle, np.uint8)
        epoch = self.epoch.to_bytes(8, "little")
        self._export[IPC_HANDLE_NBYTES:] = np.frombuffer(epoch, np.uint8)
        return self._slab


class CudaPoolReader(PoolReader):
    """The consumer's side: the producer's slab, mapped when it is first met."""

    def __init__(self, layout: PoolLayout, memory: SharedMemory, cuda: Cuda, device: int) -> None:
        super().__init__(layout, memory)
        self._cuda = cuda
        self._device = device
        self._export = layout.export(memory)
        self._slab = 0
        self._epoch = 0
        self._reading = False

    def view(self, lease: Lease) -> Any:
        """The payload where it lies. Raises StaleLease if the slot or its slab has moved on."""
        if not isinstance(lease, DeviceLease):
            return super().view(lease)
        self._check(lease)
        if lease.epoch != self._epoch:
            self._map(lease.epoch)
        self._reading = True
        pointer = self._slab + lease.slot * self.layout.stride
        return DeviceArray(pointer, lease.dtype, lease.shape)

    def finish(self) -> None:
        """Wait for the device, if it was given anything since the last time."""
        if self._reading:
            self._reading = False
            self._cuda.synchronise()

    def _map(self, epoch: int) -> None:
        if int.from_bytes(self._export[IPC_HANDLE_NBYTES:].tobytes(), "little") != epoch:
            raise StaleLease(f"the slab of epoch {epoch} is gone")
        self._cuda.use(self._device)
        self.finish()
        if self._slab:
            slab, self._slab = self._slab, 0
            self._cuda.close(slab)
        try:
            self._slab = self._cuda.open(self._export[:IPC_HANDLE_NBYTES].tobytes())
        except CudaError as error:
            raise StaleLease(f"the slab of epoch {epoch} cannot be mapped: {error}") from error
        self._epoch = epoch
