"""The ears: Silero's voice activity model, batched over all sessions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from pipeline.messages import INPUT_RATE_HZ, Audio, Reset, Speech, Start
from pipeline.models.store import resolve
from pipeline.stage import Batch, Output, Stage, StageSettings
from pipeline.stages.onnx_session import onnx_session

__all__ = ["Silero"]

MODEL = "silero-vad"
WINDOW = 512
CONTEXT = 64
"""The model sees the end of the window before, too."""

Floats = NDArray[np.float32]


@dataclass(slots=True)
class _Stream:
    """One session's state. state: [2, 1, 128], of the recurrent layers."""

    pending: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    context: Floats = field(default_factory=lambda: np.zeros(CONTEXT, np.float32))
    state: Floats = field(default_factory=lambda: np.zeros((2, 1, 128), np.float32))
    end_sample: int = 0

    def forget(self) -> None:
        """Start anew; what is left of a window is passed over."""
        self.end_sample += len(self.pending)
        self.pending = np.zeros(0, np.float32)
        self.context = np.zeros(CONTEXT, np.float32)
        self.state = np.zeros((2, 1, 128), np.float32)


class Silero(Stage):
    """`Audio` inputs of any length (int16, 16 kHz, mono), one `Speech` for every 32 ms out.

    options: `model`, the path of another graph with the same inputs.
    """

    batched = True

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._session: onnxruntime.InferenceSession | None = None
        self._rate = np.array(INPUT_RATE_HZ, np.int64)
        self._streams: dict[str, _Stream] = {}

    def load(self) -> None:
        """Load the graph and run it for one session and for several."""
        path = resolve(self._settings.home, self._settings.options.get("model", MODEL))
        self._session = onnx_session(path, self._settings.threads)
        for count in (1, 8):
            self._judge([_Stream(pending=np.zeros(WINDOW, np.float32)) for _ in range(count)])

    def open(self, start: Start) -> None:
        """Begin at sample 0."""
        self._streams[start.request_id] = _Stream()

    def close(self, request_id: str) -> None:
        """Drop a session."""
        self._streams.pop(request_id, None)

    def step(self, batch: Batch) -> list[Output]:
        """Judge every whole window; each round takes one of each session that has one."""
        outputs: list[Output] = []
        for work in batch:
            stream = self._streams[work.request_id]
            for given in work.inputs:
                if isinstance(given.message, Audio) and given.array is not None:
                    samples = given.array.astype(np.float32) / 32768
                    stream.pending = np.concatenate([stream.pending, samples])
                elif isinstance(given.message, Reset):
                    # What came before the reset is judged before it.
                    outputs += self._run([work.request_id])
                    stream.forget()
        return outputs + self._run([work.request_id for work in batch])

    def _run(self, request_ids: list[str]) -> list[Output]:
        outputs: list[Output] = []
        while ready := [r for r in request_ids if len(self._streams[r].pending) >= WINDOW]:
            streams = [self._streams[request_id] for request_id in ready]
            probabilities = self._judge(streams)
            for request_id, stream, probability in zip(ready, streams, probabilities, strict=True):
                outputs.append(Output(request_id, Speech(float(probability), stream.end_sample)))
        return outputs

    def _judge(self, streams: list[_Stream]) -> Floats:
        """One window of each stream, in one call; returns a probability for each."""
        assert self._session is not None, "load() comes first"
        rows = np.stack([np.concatenate([s.context, s.pending[:WINDOW]]) for s in streams])
        state = np.concatenate([stream.state for stream in streams], axis=1)
        feed = {"input": rows, "state": state, "sr": self._rate}
        probabilities, state = self._session.run(None, feed)
        for i, stream in enumerate(streams):
            stream.context = rows[i, -CONTEXT:]
            stream.pending = stream.pending[WINDOW:]
            stream.state = state[:, i : i + 1]
            stream.end_sample += WINDOW
        result: Floats = probabilities[:, 0]
        return result
