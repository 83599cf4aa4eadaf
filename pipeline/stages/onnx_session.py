"""ONNX Runtime on a budget of threads."""

from __future__ import annotations

from pathlib import Path

import onnxruntime


def onnx_session(model: Path, threads: int) -> onnxruntime.InferenceSession:
    """A session on the CPU that computes with so many threads and never spins while it waits.

    model: a file, or a folder with one `.onnx` file in it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    path = next(model.glob("*.onnx")) if model.is_dir() else model
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
