"""`sori watermark`: the mark of a file, without a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from audio.containers import ContainerError, read_audio, write_wav
from pipeline.config import EngineConfig
from pipeline.messages import OUTPUT_RATE_HZ
from pipeline.watermark_key import watermark_key

if TYPE_CHECKING:
    from audio.watermark.scan import Detection


ONLY_SORI = (
    "watermark.backend is audioseal, whose marks its own detector reads; "
    "to look for Sori's, set watermark.backend to sori"
)


class MarkingError(Exception):
    """The file cannot be read, or not marked. The message says why."""


def detect(config: EngineConfig, file: Path, threshold: float) -> Detection:
    """Search a recording of any kind and length for the mark. Raises MarkingError."""
    from audio.watermark import scan
    from audio.watermark.grid import RATE_HZ

    if config.watermark.backend != "sori":
        raise MarkingError(ONLY_SORI)
    if not 0.0 < threshold < 1.0:
        raise MarkingError(f"--threshold must lie between 0 and 1, not {threshold:g}")
    try:
        return scan.detect(read_audio(file, RATE_HZ), watermark_key(config), threshold)
    except ContainerError as error:
        raise MarkingError(str(error)) from error


def embed(config: EngineConfig, file: Path, output: Path, payload: int | None = None) -> None:
    """Write the recording, as 24 kHz mono, with a mark in it. Raises MarkingError."""
    from audio.watermark.embedder import Embedder

    if config.watermark.backend != "sori":
        raise MarkingError(ONLY_SORI)
    if output.exists() and output.samefile(file):
        raise MarkingError(f"{output}: this is the recording itself; name another file")
    try:
        key = watermark_key(config)
        mark = Embedder(key, config.watermark.payload if payload is None else payload)
    except ValueError as error:
        raise MarkingError(str(error)) from error

    def marked() -> Iterator[NDArray[np.int16]]:
        for block in read_audio(file, OUTPUT_RATE_HZ):
            yield mark.process(block)
        yield mark.flush()

    try:
        write_wav(output, marked(), OUTPUT_RATE_HZ)
    except ContainerError as error:
        raise MarkingError(str(error)) from error
