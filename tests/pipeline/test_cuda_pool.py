"""A pool on a GPU: its rules with a runtime of host memory, and all of it where there is a GPU."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scripted_engine import ask, collect, scripted_stages

from pipeline.config import EngineConfig, StageConfig, StagesConfig
from pipeline.cuda_pool import CudaPoolReader, CudaPoolWriter, DeviceArray, DeviceLease, devices_of
from pipeline.cuda_runtime import IPC_HANDLE_NBYTES, CudaError, CudaRuntime
from pipeline.engine import Engine
from pipeline.memory import SharedMemory
from pipeline.messages import Audio, End
from pipeline.pool import Lease, PoolLayout, PoolReader, StaleLease, host_array

LAYOUT = PoolLayout(slots=4, slot_nbytes=8192)
PATTERN = np.arange(2048, dtype=np.float32).reshape(64, 32)


class PretendedCuda:
    """A runtime whose devices are buffers of this process. calls: what was asked, in order."""

    def __init__(self, *, peers: bool = True, room: bool = True) -> None:
        self._room = room
        self.calls: list[str] = []
        self.opened: set[int] = set()
        self._peers = peers
        self._slabs: dict[int, Any] = {}

    def use(self, device: int) -> None:
        self.calls.append(f"use {device}")

    def can_access_peer(self, device: int, peer: int) -> bool:
        return self._peers or device == peer

    def allocate(self, nbytes: int) -> int:
        self.calls.append("allocate")
        if not self._room:
            raise CudaError("cudaMalloc: out of memory (2)")
        slab = ctypes.create_string_buffer(nbytes)
        self._slabs[ctypes.addressof(slab)] = slab
        return ctypes.addressof(slab)

    def export(self, pointer: int) -> bytes:
        return pointer.to_bytes(IPC_HANDLE_NBYTES, "little")

    def open(self, handle: bytes) -> int:
        pointer = int.from_bytes(handle, "little")
        if pointer not in self._slabs:
            raise CudaError("cudaIpcOpenMemHandle: invalid argument (1)")
        self.opened.add(pointer)
        return pointer

    def close(self, pointer: int) -> None:
        self.calls.append("close")
        self.opened.remove(pointer)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.calls.append("copy")
        ctypes.memmove(target, source, nbytes)

    def synchronise(self) -> None:
        self.calls.append("synchronise")

    def lose(self) -> None:
        """The process that allocated has died, before anybody had mapped what it had."""
        self._slabs.clear()


@dataclass
class Tensor:
    """Pretends to lie on a device."""

    array: NDArray[Any]

    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]:
        return {**self.array.__array_interface__, "strides": None}


def writer_of(cuda: Any, memory: SharedMemory, epoch: int = 1, **more: Any) -> CudaPoolWriter:
    borrowed: tuple[Lease, ...] = more.get("borrowed", ())
    return CudaPoolWriter(LAYOUT, memory, epoch, 2, borrowed, cuda, (0, more.get("peer", 0)))


def content(array: DeviceArray) -> NDArray[Any]:
    """What lies there."""
    raw = ctypes.string_at(array.pointer, array.nbytes)
    found: NDArray[Any] = np.frombuffer(raw, array.dtype).reshape(array.shape)
    return found


def test_what_lies_on_a_device_is_read_there_and_the_rest_on_the_host() -> None:
    cuda, memory = PretendedCuda(), LAYOUT.create()
    writer, reader = writer_of(cuda, memory), CudaPoolReader(LAYOUT, memory, cuda, 1)
    on_device = writer.write("a", Tensor(PATTERN))
    on_host = writer.write("a", PATTERN + 1)
    assert not writer.has_credit("a")
    view = reader.view(pickle.loads(pickle.dumps(on_device)))
    assert view.__cuda_array_interface__["shape"] == PATTERN.shape
    assert np.array_equal(content(view), PATTERN)
    assert np.array_equal(reader.view(on_host), PATTERN + 1)
    writer.release(on_device)
    assert writer.has_credit("a")


def test_both_sides_wait_for_their_device_before_a_lease_changes_hands() -> None:
    cuda, memory = PretendedCuda(), LAYOUT.create()
    writer, reader = writer_of(cuda, memory), CudaPoolReader(LAYOUT, memory, cuda, 0)
    writer.write("a", Tensor(PATTERN))
    cuda.calls.clear()
    lease = writer.write("a", Tensor(PATTERN))
    assert cuda.calls == ["synchronise", "copy", "synchronise"]
    reader.view(lease)
    cuda.calls.clear()
    reader.finish()
    reader.finish()
    assert cuda.calls == ["synchronise"]


def test_a_slab_is_allocated_once_and_not_before_it_is_needed() -> None:
    cuda = PretendedCuda()
    writer = writer_of(cuda, LAYOUT.create())
    writer.write("a", PATTERN)
    assert cuda.calls == []
    for request_id in "bc":
        writer.write(request_id, Tensor(PATTERN))
    assert cuda.calls.count("allocate") == 1


def test_without_room_for_a_slab_payloads_take_the_hosts_memory() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[omni]'")
    cuda, memory = PretendedCuda(room=False), LAYOUT.create()
    writer, reader = writer_of(cuda, memory), CudaPoolReader(LAYOUT, memory, cuda, 0)
    leases = [writer.write("a", torch.from_numpy(PATTERN)) for _ in range(2)]
    for lease in leases:
        assert np.array_equal(reader.view(lease), PATTERN)
    assert cuda.calls.count("allocate") == 1


def test_a_slot_that_was_lent_again_is_stale() -> None:
    cuda, memory = PretendedCuda(), LAYOUT.create()
    writer, reader = writer_of(cuda, memory), CudaPoolReader(LAYOUT, memory, cuda, 0)
    lease = writer.write("a", Tensor(PATTERN))
    writer.release(lease)
    writer.write("b", Tensor(PATTERN))
    with pytest.raises(StaleLease, match="moved on"):
        reader.view(lease)


def test_a_successors_slab_takes_the_place_of_the_dead_producers() -> None:
    cuda, memory = PretendedCuda(), LAYOUT.create()
    reader = CudaPoolReader(LAYOUT, memory, cuda, 0)
    held = writer_of(cuda, memory).write("a", Tensor(PATTERN))
    view = reader.view(held)
    successor = writer_of(cuda, memory, epoch=2, borrowed=(held,))
    assert successor.free == LAYOUT.slots - 1
    assert np.array_equal(content(view), PATTERN)
    lease = successor.write("b", Tensor(PATTERN + 2))
    cuda.calls.clear()
    assert np.array_equal(content(reader.view(lease)), PATTERN + 2)
    assert cuda.calls == ["use 0", "synchronise", "close"]
    assert len(cuda.opened) == 1
    with pytest.raises(StaleLease, match="epoch 1 is gone"):
        reader.view(held)


def test_a_dead_producers_slab_that_was_not_mapped_is_stale() -> None:
    cuda, memory = PretendedCuda(), LAYOUT.create()
    lease = writer_of(cuda, memory).write("a", Tensor(PATTERN))
    cuda.lose()
    with pytest.raises(StaleLease, match="cannot be mapped"):
        CudaPoolReader(LAYOUT, memory, cuda, 0).view(lease)


def test_without_peer_access_there_is_no_slab() -> None:
    with pytest.raises(CudaError, match="cuda:1 cannot read the memory of cuda:0"):
        writer_of(PretendedCuda(peers=False), LAYOUT.create(), peer=1)


def test_what_does_not_fit_or_is_not_contiguous_is_refused() -> None:
    class Strided(Tensor):
        @property
        def __cuda_array_interface__(self) -> Mapping[str, Any]:
            return {**self.array.__array_interface__, "strides": (8, 4)}

    writer = writer_of(PretendedCuda(), LAYOUT.create())
    with pytest.raises(ValueError, match="do not fit"):
        writer.write("a", Tensor(np.zeros(4096, np.float32)))
    with pytest.raises(ValueError, match="contiguous"):
        writer.write("a", Strided(PATTERN))
    assert writer.free == LAYOUT.slots


def test_a_worker_without_cuda_does_not_take_a_lease_of_a_device_for_one_of_the_host() -> None:
    lease = DeviceLease(0, 0, 0, "<f4", (4,))
    with pytest.raises(StaleLease, match="no way to"):
        PoolReader(LAYOUT, LAYOUT.create()).view(lease)


def test_a_tensor_is_copied_to_the_host_where_the_link_has_no_device() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[omni]'")
    assert np.array_equal(host_array(torch.from_numpy(PATTERN)), PATTERN)


@pytest.mark.parametrize(
    ("devices", "placements", "found"),
    [
        (("cuda:1", "cuda:0"), ("process", "process"), (1, 0)),
        (("cuda", "cuda:2"), ("process", "process"), (0, 2)),
        (("cpu", "cuda:0"), ("process", "process"), None),
        (("cuda:0", "cuda:0"), ("process", "thread"), None),
    ],
)
def test_a_link_is_on_gpus_if_both_of_its_stages_are_processes_there(
    devices: tuple[str, str], placements: tuple[Any, Any], found: tuple[int, int] | None
) -> None:
    producer, consumer = (
        StageConfig(kind="x", device=device, placement=placement)
        for device, placement in zip(devices, placements, strict=True)
    )
    assert devices_of(producer, consumer) == found


def test_the_log_says_at_wiring_time_which_pool_a_link_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    on_gpu = StagesConfig(
        talker=StageConfig(kind="scripted_talker", device="cuda:0"),
        voicebox=StageConfig(kind="scripted_voicebox", device="cuda:1"),
    )
    with caplog.at_level("INFO", "pipeline.engine"):
        engine = Engine(EngineConfig(stages=on_gpu))
    told = "\n".join(record.getMessage() for record in caplog.records)
    assert "link talker-voicebox: CUDA, cuda:0 to cuda:1" in told
    assert "link voicebox-server: shared memory" in told
    assert engine.workers["voicebox"].inbound is engine.workers["talker"].outbound


async def test_a_gpu_that_is_not_there_costs_no_reply() -> None:
    stages = scripted_stages("process")
    stages.talker.device = stages.voicebox.device = "cuda:0"
    engine = Engine(EngineConfig(stages=stages))
    await engine.start()
    try:
        messages = await collect(engine.submit(ask("r")))
    finally:
        await engine.shutdown()
    assert isinstance(messages[-1], End)
    assert sum(one.samples for one in messages if isinstance(one, Audio)) > 0


# -- with a GPU ------------------------------------------------------------------------------------

PRODUCER = """
import pickle, sys
import numpy as np
from pipeline.cuda_pool import CudaPoolWriter, DeviceArray
from pipeline.cuda_runtime import CudaRuntime
from pipeline.memory import SharedMemory
from pipeline.pool import PoolLayout

layout, fd, epoch = PoolLayout(4, 8192), int(sys.argv[1]), int(sys.argv[2])
cuda = CudaRuntime()
writer = CudaPoolWriter(layout, SharedMemory(layout.nbytes, fd), epoch, 2, (), cuda, (0, 0))
pattern = np.arange(2048, dtype=np.float32).reshape(64, 32) * epoch
place = cuda.allocate(pattern.nbytes)
cuda.copy(place, pattern.ctypes.data, pattern.nbytes)
lease = writer.write("a", DeviceArray(place, pattern.dtype.str, pattern.shape))
pickle.dump(lease, sys.stdout.buffer)
sys.stdout.buffer.flush()
sys.stdin.read()
"""


@pytest.fixture
def cuda() -> Iterator[CudaRuntime]:
    try:
        runtime = CudaRuntime()
    except CudaError as error:
        pytest.skip(f"no CUDA device: {error}")
    runtime.use(0)
    yield runtime


def produce(memory: SharedMemory, epoch: int) -> tuple[subprocess.Popen[bytes], DeviceLease]:
    """A producer in a process of its own, and what it has lent."""
    process = subprocess.Popen(
        [sys.executable, "-c", PRODUCER, str(memory.fd), str(epoch)],
        pass_fds=[memory.fd],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    pipe: IO[bytes] | None = process.stdout
    assert pipe is not None
    lease = pickle.load(pipe)
    assert isinstance(lease, DeviceLease)
    return process, lease


def end(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def fetched(cuda: CudaRuntime, array: DeviceArray) -> NDArray[Any]:
    """A copy of it on the host."""
    host = np.empty(array.shape, array.dtype)
    cuda.copy(host.ctypes.data, array.pointer, array.nbytes)
    cuda.synchronise()
    return host


@pytest.mark.gpu
def test_another_process_reads_a_payload_where_it_lies(cuda: CudaRuntime) -> None:
    memory = LAYOUT.create()
    producer, lease = produce(memory, epoch=1)
    try:
        view = CudaPoolReader(LAYOUT, memory, cuda, 0).view(lease)
        assert np.array_equal(fetched(cuda, view), PATTERN)
    finally:
        end(producer)


@pytest.mark.gpu
def test_a_producer_killed_while_its_consumer_computes_harms_nothing(cuda: CudaRuntime) -> None:
    memory = LAYOUT.create()
    reader = CudaPoolReader(LAYOUT, memory, cuda, 0)
    producer, lease = produce(memory, epoch=1)
    view = reader.view(lease)
    scratch = cuda.allocate(view.nbytes)
    for number in range(2000):
        cuda.copy(scratch, view.pointer, view.nbytes)  # queued on the device, not waited for
        if number == 1000:
            end(producer)
    reader.finish()
    assert np.array_equal(fetched(cuda, DeviceArray(scratch, view.dtype, view.shape)), PATTERN)
    successor, lent = produce(memory, epoch=2)
    try:
        assert np.array_equal(fetched(cuda, reader.view(lent)), PATTERN * 2)
        with pytest.raises(StaleLease):
            reader.view(lease)
    finally:
        end(successor)
