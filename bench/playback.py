"""What a listener hears of a reply that arrives in pieces: when it first sounds, where it breaks.

Pure arithmetic over arrival times, so that it judges any client's record the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

AUDIBLE_DBFS = -50.0
FRAME_MS = 10


@dataclass(frozen=True, slots=True)
class Piece:
    """Some audio of a reply: when it came, in seconds, and its samples."""

    at_s: float
    samples: NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Gap:
    """Playback ran dry: at this sample of the reply, for so long."""

    at_sample: int
    seconds: float


def find_gaps(pieces: Sequence[Piece], rate_hz: int, buffer_ms: float = 0.0) -> list[Gap]:
    """Where a loudspeaker that starts `buffer_ms` after the first piece would fall silent.

    After a gap, playback goes on at once with what then arrives.
    """
    gaps: list[Gap] = []
    dry_s = 0.0
    received = 0
    for piece in pieces:
        if received == 0:
            dry_s = piece.at_s + buffer_ms / 1000
        elif piece.at_s > dry_s:
            gaps.append(Gap(received, piece.at_s - dry_s))
            dry_s = piece.at_s
        received += len(piece.samples)
        dry_s += len(piece.samples) / rate_hz
    return gaps


def playback_end_s(pieces: Sequence[Piece], rate_hz: int) -> float | None:
    """When the last sample has been played; None for a reply without audio."""
    if not pieces:
        return None
    gaps = sum(gap.seconds for gap in find_gaps(pieces, rate_hz))
    return pieces[0].at_s + gaps + sum(len(piece.samples) for piece in pieces) / rate_hz


def first_audible_sample(samples: NDArray[np.int16], rate_hz: int) -> int | None:
    """Start of the first 10 ms frame above −50 dBFS, or None if all is silence."""
    size = rate_hz * FRAME_MS // 1000
    count = len(samples) // size
    frames = samples[: count * size].reshape(count, size).astype(np.float64) / 32768
    power = np.mean(frames**2, axis=1) if count else np.zeros(0)
    audible = np.flatnonzero(power > 10 ** (AUDIBLE_DBFS / 10))
    return int(audible[0]) * size if len(audible) else None


def audible_at_s(pieces: Sequence[Piece], rate_hz: int) -> float | None:
    """When the last sample of the first audible frame arrived at the client."""
    if not pieces:
        return None
    first = first_audible_sample(np.concatenate([piece.samples for piece in pieces]), rate_hz)
    if first is None:
        return None
    needed = first + rate_hz * FRAME_MS // 1000
    received = 0
    for piece in pieces:
        received += len(piece.samples)
        if received >= needed:
            return piece.at_s
    raise AssertionError("an audible frame lies within the pieces")


def lead_in_ms(pieces: Sequence[Piece], rate_hz: int) -> float | None:
    """Silence before the first audible frame, in milliseconds."""
    if not pieces:
        return None
    first = first_audible_sample(np.concatenate([piece.samples for piece in pieces]), rate_hz)
    return None if first is None else first * 1000 / rate_hz
