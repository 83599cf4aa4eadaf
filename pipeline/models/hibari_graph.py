"""Gives hibari's graph one more output: how long it speaks each phoneme.

The network computes the durations and keeps them to itself. An ONNX file is one protobuf message,
and protobuf merges a second occurrence of an embedded message into the first, so appending a graph
that holds only the new output declares it. No ONNX library is needed.
"""

from __future__ import annotations

from pathlib import Path

DURATIONS = "/Clip_output_0"
"""One float for each phoneme id, in units of 25 ms."""

_GRAPH = 7  # ModelProto.graph
_OUTPUT = 12  # GraphProto.output
_FLOAT = 1  # TensorProto.FLOAT


def expose_durations(source: Path, target: Path) -> None:
    """Write `target`: the graph of `source` with `DURATIONS` as its last output."""
    tensor = _message(1, bytes([1 << 3, _FLOAT]))  # TypeProto.tensor_type { elem_type }
    output = _message(1, DURATIONS.encode()) + _message(2, tensor)  # ValueInfoProto
    target.write_bytes(source.read_bytes() + _message(_GRAPH, _message(_OUTPUT, output)))


def _message(field: int, body: bytes) -> bytes:
    """A length-delimited protobuf field of at most 127 bytes."""
    assert len(body) < 128
    return bytes([field << 3 | 2, len(body)]) + body
