"""How well speech was understood: word error rate after Whisper's English text normalisation."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from bench.understanding import word_error_rate

__all__ = ["Recording", "recordings", "word_error_rate"]

SPEECH = Path(__file__).parent / "fixtures" / "speech"


@dataclass(frozen=True, slots=True)
class Recording:
    """A person's speech: int16, 16 kHz, mono."""

    name: str
    samples: NDArray[np.int16]
    transcript: str
    speech_start_ms: int
    speech_end_ms: int


@cache
def recordings() -> tuple[Recording, ...]:
    """All clips of the fixtures."""
    with (SPEECH / "transcripts.tsv").open(newline="") as table:
        return tuple(
            Recording(
                row["file"],
                soundfile.read(SPEECH / row["file"], dtype="int16")[0],
                row["transcript"],
                int(row["speech_start_ms"]),
                int(row["speech_end_ms"]),
            )
            for row in csv.DictReader(table, delimiter="\t")
        )
