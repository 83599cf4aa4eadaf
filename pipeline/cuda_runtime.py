"""The few calls of the CUDA runtime that a pool on a GPU needs, by ctypes: no torch, no compiler.

Names and meanings are those of NVIDIA's CUDA Runtime API, sections Memory Management, Device
Management, and Interprocess Communication.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Protocol

IPC_HANDLE_NBYTES = 64
IPC_LAZY_PEER_ACCESS = 1
MEMCPY_DEFAULT = 4  # the direction is found from the pointers
LIBRARIES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so")


class CudaError(Exception):
    """A call failed, or there is no CUDA here. The message has the call and the runtime's words."""


class Cuda(Protocol):
    """What a pool asks of the runtime. Pointers are addresses on a device."""

    def use(self, device: int) -> None:
        """Make the device this thread's current one."""

    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether kernels on `device` can read the memory of `peer`."""

    def allocate(self, nbytes: int) -> int:
        """Memory of its own on the current device, outside of any caching allocator."""

    def export(self, pointer: int) -> bytes:
        """The handle by which another process can map an allocation: 64 bytes."""

    def open(self, handle: bytes) -> int:
        """Map another process's allocation. Not possible within the process that exported it."""

    def close(self, pointer: int) -> None:
        """Unmap it."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy between any two places, device or host."""

    def synchronise(self) -> None:
        """Wait until all work of the current device is done."""


class CudaRuntime:
    """libcudart. Raises CudaError where there is none, or no device."""

    def __init__(self) -> None:
        self._library = _load()
        count = ctypes.c_int()
        self._call("cudaGetDeviceCount", ctypes.byref(count))
        self.devices = count.value

    def use(self, device: int) -> None:
        """See `Cuda`; as for all below."""
        self._call("cudaSetDevice", ctypes.c_int(device))

    def can_access_peer(self, device: int, peer: int) -> bool:
        if device == peer:
            return True
        answer = ctypes.c_int()
        self._call(
            "cudaDeviceCanAccessPeer",
            ctypes.byref(answer),
            ctypes.c_int(device),
            ctypes.c_int(peer),
        )
        return bool(answer.value)

    def allocate(self, nbytes: int) -> int:
        pointer = ctypes.c_void_p()
        self._call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(nbytes))
        return pointer.value or 0

    def export(self, pointer: int) -> bytes:
        handle = _IpcHandle()
        self._call("cudaIpcGetMemHandle", ctypes.byref(handle), ctypes.c_void_p(pointer))
        return bytes(handle)

    def open(self, handle: bytes) -> int:
        pointer = ctypes.c_void_p()
        self._call(
            "cudaIpcOpenMemHandle",
            ctypes.byref(pointer),
            _IpcHandle.from_buffer_copy(handle),
            ctypes.c_uint(IPC_LAZY_PEER_ACCESS),
        )
        return pointer.value or 0

    def close(self, pointer: int) -> None:
        self._call("cudaIpcCloseMemHandle", ctypes.c_void_p(pointer))

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._call(
            "cudaMemcpy",
            ctypes.c_void_p(target),
            ctypes.c_void_p(source),
            ctypes.c_size_t(nbytes),
            ctypes.c_int(MEMCPY_DEFAULT),
        )

    def synchronise(self) -> None:
        self._call("cudaDeviceSynchronize")

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            self._library.cudaGetErrorString.restype = ctypes.c_char_p
            text = self._library.cudaGetErrorString(ctypes.c_int(status)).decode()
            raise CudaError(f"{name}: {text} ({status})")


class _IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * IPC_HANDLE_NBYTES)]


def _load() -> ctypes.CDLL:
    for name in (*LIBRARIES, ctypes.util.find_library("cudart")):
        try:
            if name:
                return ctypes.CDLL(name)
        except OSError:
            continue
    raise CudaError("there is no libcudart here")
