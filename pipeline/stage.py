"""The interface of a model stage.

A stage is synchronous and batch first. It knows no asyncio, sockets or sessions, and runs in one
thread of one worker, which alone calls it. Adding a model is one file under `stages/` and one line
in its registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from pipeline.messages import StageMessage, Start

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Input:
    """A message for a stage and its payload.

    The array is read-only and valid only during the step it is given in: it lies in a slot that is
    handed back afterwards. A stage that keeps data past its step copies it. A payload larger than
    a slot comes as `parts` inputs in order, each with the same message and its share of axis 0.
    """

    message: StageMessage
    array: Array | None = None
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Output:
    """A message from a stage and its payload, for the request with this id.

    The array is copied into pool slots (or inline) before `step` is called again. One that is
    larger than a slot is cut along axis 0, so a row of axis 0 must fit in a slot.

    It may be a tensor on a GPU: contiguous, with `nbytes` and `__cuda_array_interface__`. Between
    two stages on GPUs it stays there and is an object with that interface at the other end,
    otherwise a NumPy array; `torch.as_tensor(array, device=…)` takes both.
    """

    request_id: str
    message: StageMessage
    array: Array | None = None


@dataclass(slots=True)
class Work:
    """One request that may advance in this step.

    inputs: new since the last step, oldest first; empty when the stage asked for more time.
    lead_ms: milliseconds of audio made but not yet played at the client, for stages whose steps
        are gated by the synthesis semaphore; None elsewhere.
    more: the stage sets this to be stepped again for this request without new input.
    """

    request_id: str
    inputs: list[Input] = field(default_factory=list)
    lead_ms: float | None = None
    more: bool = False


Batch = list[Work]


@dataclass(frozen=True, slots=True)
class StageSettings:
    """What a stage is built with. `home` is the model store's folder."""

    threads: int = 1
    device: str = "cpu"
    home: Path = Path()
    options: Mapping[str, Any] = field(default_factory=dict)


class StageError(Exception):
    """One request cannot go on; the others can. `code` reaches the client."""

    def __init__(self, request_id: str, code: str, message: str) -> None:
        super().__init__(message)
        self.request_id = request_id
        self.code = code


class Stage(ABC):
    """A model, or a part of one.

    `wake(request_id)` is set by the runner before `load`; a stage that works in threads of its own
    calls it, from any thread, when a request has something to give.
    """

    batched: ClassVar[bool] = False
    """Whether one step serves all ready requests. A fault in a batched step fails its whole batch;
    a stage that would only loop over them leaves this off, so that each fails alone."""

    wake: Callable[[str], None] = staticmethod(lambda request_id: None)

    @abstractmethod
    def load(self) -> None:
        """Load weights and warm up. Runs in the worker; an exception here fails the worker."""

    @abstractmethod
    def open(self, start: Start) -> None:
        """Make the state of a request. The first `step` may come with no inputs."""

    @abstractmethod
    def step(self, batch: Batch) -> list[Output]:
        """One iteration for these requests. `End` or `Failed` as an output closes its request.

        Raise StageError for a fault of one request; any other exception fails the whole batch.
        """

    def stalled_s(self) -> float:
        """How long work outside of `step` has stood still, for a stage with threads of its own.

        Asked for from another thread. It counts like a step that takes as long.
        """
        return 0.0

    @abstractmethod
    def close(self, request_id: str) -> None:
        """Drop the state of a request, finished or aborted. Unknown ids are ignored."""
