"""Functions of tensors made ready for the shapes they will meet: compiled, captured, or both.

All of that is done at load, by `warm`. A shape that was not warmed runs as it is written, slower:
nothing is ever compiled or captured in the middle of a reply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pipeline.stages.omni_checkpoint import CheckpointError

Function = Callable[..., torch.Tensor]
Shapes = tuple[tuple[tuple[int, ...], torch.dtype], ...]

MAX_SHAPES = 64
"""Of one function. Each costs a compile at load, and on a GPU memory for what it is captured in."""

CAPTURE_RUNS = 3
"""Before a capture, on the stream of it: libraries choose their kernels and allocate then."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """The options `compile` and `cuda_graphs` of a stage."""

    compile: bool = False
    cuda_graphs: bool = False

    def __bool__(self) -> bool:
        return self.compile or self.cuda_graphs


def readiness_of(options: Mapping[str, Any], device: torch.device) -> Readiness:
    """What the stage's options ask for.

    Raises CheckpointError if one is neither true nor false, or the device has no CUDA graphs.
    """
    wanted = Readiness(*(_switch(options, name) for name in ("compile", "cuda_graphs")))
    if wanted.cuda_graphs and device.type != "cuda":
        raise CheckpointError(
            f"options.cuda_graphs: the stage is on {str(device)!r}, and only a CUDA device has them"
        )
    return wanted


def refuse_readiness(options: Mapping[str, Any]) -> None:
    """For a stage that makes no use of them. Raises CheckpointError naming the option."""
    for name in ("compile", "cuda_graphs"):
        if _switch(options, name):
            raise CheckpointError(
                f"options.{name}: no part of this stage is ever made ready; leave it out"
            )


def _switch(options: Mapping[str, Any], name: str) -> bool:
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise CheckpointError(f"options.{name}: {value!r} is neither true nor false")
    return value


class FixedShapes:
    """A function of tensors on one device that gives one tensor, and depends on nothing else.

    Called by one thread, without gradients. What it gives belongs to the caller: no later call
    overwrites it.
    """

    def __init__(self, function: Function, wanted: Readiness, device: torch.device) -> None:
        self._function = function
        self._wanted = wanted
        self._device = device
        self._compiled = torch.compile(function, dynamic=False) if wanted.compile else function
        self._ready: dict[Shapes, Function] = {}
        self._pool: Any = None

    @property
    def warmed(self) -> int:
        """How many shapes are ready."""
        return len(self._ready)

    @torch.inference_mode()
    def warm(self, *inputs: torch.Tensor) -> None:
        """Make the shapes of these inputs ready, and run them once. Their values do not matter.

        Does nothing if they are ready, or neither option is set. Raises CheckpointError beyond
        MAX_SHAPES of them.
        """
        shapes = _shapes(inputs)
        if not self._wanted or shapes in self._ready:
            return
        if len(self._ready) == MAX_SHAPES:
            raise CheckpointError(f"more than {MAX_SHAPES} shapes to be made ready")
        # A shape more is no failure here, as PyTorch would take it for after the eighth. The stance
        # is set in case another stage of this process is in a reply.
        with (
            torch._dynamo.config.patch(recompile_limit=MAX_SHAPES + 1),
            torch.compiler.set_stance("default"),
        ):
            inputs = _as_in_replies(inputs)
            self._compiled(*inputs)
            if self._wanted.cuda_graphs:
                self._pool = self._pool or torch.cuda.graph_pool_handle()
                self._ready[shapes] = _Capture(self._compiled, inputs, self._device, self._pool)
                return
        self._ready[shapes] = self._run_compiled

    @torch.inference_mode()
    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        """The function, in the fastest way that is ready for these shapes."""
        return self._ready.get(_shapes(inputs), self._function)(*inputs)

    def _run_compiled(self, *inputs: torch.Tensor) -> torch.Tensor:
        # Beside shapes, compiled code is bound to such things as the number of threads. Were one of
        # them another now, it would be compiled again, for seconds.
        with torch.compiler.set_stance("eager_on_recompile"):
            return self._compiled(*_as_in_replies(inputs))


def _as_in_replies(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Tensors of inference mode, all: compiled code for those is not used for any others."""
    return tuple(one if one.is_inference() else one.clone() for one in inputs)


class _Capture:
    """One shape as a CUDA graph, with the buffers that it reads from and writes to.

    Copies and replay go to the current stream of the device, where the rest of the stage's work
    goes too, so each waits for what was queued before it. Captures of one pool share their
    scratch memory: they must not run at once.
    """

    def __init__(
        self, function: Function, inputs: tuple[torch.Tensor, ...], device: torch.device, pool: Any
    ) -> None:
        self._device = device
        self._inputs = [one.clone() for one in inputs]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device):
            stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(stream):
                for _ in range(CAPTURE_RUNS):
                    function(*self._inputs)
            torch.cuda.current_stream(device).wait_stream(stream)
            # Another thread may use the device meanwhile: a stage with `placement: thread`.
            with torch.cuda.graph(
                self._graph, pool=pool, stream=stream, capture_error_mode="thread_local"
            ):
                self._output = function(*self._inputs)

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor:
        with torch.cuda.device(self._device):
            for buffer, given in zip(self._inputs, inputs, strict=True):
                buffer.copy_(given)
            self._graph.replay()
            return self._output.clone()  # the next replay writes over it


def _shapes(inputs: tuple[torch.Tensor, ...]) -> Shapes:
    return tuple((tuple(one.shape), one.dtype) for one in inputs)
