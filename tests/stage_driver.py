"""Drives one stage the way the runner does, without a worker around it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from pipeline.messages import End, Failed, StageMessage, Start
from pipeline.stage import Input, Output, Stage, Work


class StageDriver:
    """Steps a loaded stage until its request has ended. `timeout_s` bounds each wait."""

    def __init__(self, stage: Stage, timeout_s: float = 60.0) -> None:
        self.stage = stage
        self._timeout_s = timeout_s
        self._woken = threading.Event()
        stage.wake = lambda request_id: self._woken.set()

    def run(self, start: Start, inputs: Iterable[Input] = ()) -> list[Output]:
        """All outputs of a request; its stage is closed at the end."""
        return list(self.stream(start, inputs))

    def stream(self, start: Start, inputs: Iterable[Input] = ()) -> Iterator[Output]:
        """The outputs as they come. Leaving early closes the request, as an abort does."""
        self.stage.open(start)
        try:
            given = list(inputs)
            while True:
                work = Work(start.request_id, given)
                given = []
                self._woken.clear()
                outputs = self.stage.step([work])
                yield from outputs
                if any(isinstance(output.message, End | Failed) for output in outputs):
                    return
                if not work.more and not self._woken.wait(self._timeout_s):
                    raise TimeoutError(f"{start.request_id} has stood still")
        finally:
            self.stage.close(start.request_id)


def messages(outputs: Iterable[Output]) -> list[StageMessage]:
    """Without the arrays."""
    return [output.message for output in outputs]
