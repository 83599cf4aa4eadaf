"""The network's graph with its durations exposed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from pipeline.models.hibari_graph import DURATIONS, expose_durations

pytestmark = pytest.mark.models


def test_durations_are_one_more_output_and_the_others_stay(
    models_home: Path, tmp_path: Path
) -> None:
    source = models_home / "models" / "hibari-heart" / "hibari.onnx"
    expose_durations(source, tmp_path / "graph.onnx")
    before = onnxruntime.InferenceSession(str(source))
    after = onnxruntime.InferenceSession(str(tmp_path / "graph.onnx"))
    names = [output.name for output in before.get_outputs()]
    assert [output.name for output in after.get_outputs()] == [*names, DURATIONS]
    feed = {
        "ids": np.array([[0, 50, 83, 54, 57, 4, 0]], np.int64),
        "speed": np.array([1], np.float32),
    }
    expected, got = before.run(None, feed), after.run(None, feed)
    for one, other in zip(expected, got, strict=False):
        assert np.array_equal(one, other)
    frames = got[names.index("f0")].shape[1]
    assert got[-1].reshape(-1).shape == (7,)
    assert float(got[-1].sum()) * 2 == pytest.approx(frames, abs=2)  # 25 ms units, 12.5 ms frames
