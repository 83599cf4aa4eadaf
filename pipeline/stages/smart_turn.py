"""The turn detector: whether an utterance sounds finished, by Smart Turn.

The model looks at the log-mel spectrum of the last eight seconds and knows no words: it hears
intonation and pace. One call is about 50 ms of one core, so it has a worker of its own, and the
ears never wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnxruntime
from faster_whisper.feature_extractor import FeatureExtractor
from numpy.typing import NDArray

from pipeline.messages import INPUT_RATE_HZ, Audio, End, Start, TurnEnd
from pipeline.models.store import resolve
from pipeline.stage import Batch, Output, Stage, StageSettings, Work
from pipeline.stages.onnx_session import onnx_session

__all__ = ["SmartTurn"]

MODEL = "smart-turn"
WINDOW_SAMPLES = 8 * INPUT_RATE_HZ
FRAMES = 800

Floats = NDArray[np.float32]


@dataclass(slots=True)
class _Utterance:
    """One request's audio so far."""

    pieces: list[NDArray[np.int16]] = field(default_factory=list)
    ended: bool = False


class SmartTurn(Stage):
    """`Audio` inputs (int16, 16 kHz, mono), then `End`; one `TurnEnd` and `End` out.

    Only the last eight seconds count. options: `model`, the path of another graph with the same
    input.
    """

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._session: onnxruntime.InferenceSession | None = None
        self._features = FeatureExtractor()
        self._utterances: dict[str, _Utterance] = {}

    def load(self) -> None:
        """Load the graph and run it once."""
        path = resolve(self._settings.home, self._settings.options.get("model", MODEL))
        self._session = onnx_session(path, self._settings.threads)
        self._judge(np.zeros(INPUT_RATE_HZ, np.int16))

    def open(self, start: Start) -> None:
        """Wait for the audio."""
        self._utterances[start.request_id] = _Utterance()

    def close(self, request_id: str) -> None:
        """Drop an utterance."""
        self._utterances.pop(request_id, None)

    def step(self, batch: Batch) -> list[Output]:
        """Judge what is complete."""
        return [output for work in batch for output in self._advance(work)]

    def _advance(self, work: Work) -> list[Output]:
        utterance = self._utterances[work.request_id]
        for given in work.inputs:
            if isinstance(given.message, Audio) and given.array is not None:
                utterance.pieces.append(np.array(given.array, np.int16))
            utterance.ended |= isinstance(given.message, End)
        if not utterance.ended:
            return []
        samples = np.concatenate(utterance.pieces or [np.zeros(0, np.int16)])
        score = TurnEnd(self._judge(samples))
        return [Output(work.request_id, score), Output(work.request_id, End())]

    def _judge(self, samples: NDArray[np.int16]) -> float:
        assert self._session is not None, "load() comes first"
        window = np.zeros(WINDOW_SAMPLES, np.float32)
        tail = samples[-WINDOW_SAMPLES:]
        if len(tail):
            window[-len(tail) :] = tail
        window /= 32768
        window = (window - window.mean()) / np.sqrt(window.var() + 1e-7)
        features: Floats = self._features(window, padding=0)[None, :, :FRAMES]
        feed = {"input_features": np.ascontiguousarray(features, np.float32)}
        return float(np.clip(self._session.run(None, feed)[0].item(), 0.0, 1.0))
