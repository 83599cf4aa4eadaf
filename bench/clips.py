"""Recordings of human speech and what is known of each: its words, and where the voice ends."""

from __future__ import annotations

import csv
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLIP_RATE_HZ = 16_000

DEFAULT_FOLDER = Path(__file__).parent.parent / "tests" / "fixtures" / "speech"


class ClipsError(Exception):
    """The folder of clips cannot be used. The message names the folder and what it lacks."""


@dataclass(frozen=True, slots=True)
class Clip:
    """One utterance: 16 kHz mono int16 samples, and times in milliseconds from its start."""

    name: str
    samples: NDArray[np.int16]
    speech_start_ms: int
    speech_end_ms: int
    transcript: str


def load_clips(folder: Path = DEFAULT_FOLDER) -> list[Clip]:
    """Every clip that `transcripts.tsv` lists, in its order. Raises ClipsError."""
    table = folder / "transcripts.tsv"
    if not table.is_file():
        raise ClipsError(
            f"no speech clips: {table} does not exist; name a folder of 16 kHz WAV files with a "
            "transcripts.tsv (file, seconds, speech_start_ms, speech_end_ms, transcript) by --clips"
        )
    with table.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows:
        raise ClipsError(f"{table} lists no clips")
    return [_load_clip(folder, table, row) for row in rows]


def _load_clip(folder: Path, table: Path, row: dict[str, str]) -> Clip:
    try:
        return Clip(
            name=row["file"],
            samples=read_wav(folder / row["file"]),
            speech_start_ms=int(row["speech_start_ms"]),
            speech_end_ms=int(row["speech_end_ms"]),
            transcript=row["transcript"],
        )
    except KeyError as error:
        raise ClipsError(f"{table} has no column {error}") from error
    except ValueError as error:
        raise ClipsError(f"{table}: {row.get('file')}: {error}") from error


def read_wav(path: Path) -> NDArray[np.int16]:
    """Samples of a 16 kHz mono PCM16 WAV file. Raises ClipsError."""
    try:
        with wave.open(str(path), "rb") as recording:
            shape = (recording.getframerate(), recording.getnchannels(), recording.getsampwidth())
            if shape != (CLIP_RATE_HZ, 1, 2):
                raise ClipsError(f"{path}: expected 16 kHz mono 16-bit WAV")
            return np.frombuffer(recording.readframes(recording.getnframes()), np.dtype("<i2"))
    except (OSError, EOFError, wave.Error) as error:
        raise ClipsError(f"{path}: {error}") from error
