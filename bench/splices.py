"""Speakers who hesitate: recordings with silences spliced in between the words of a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.clips import CLIP_RATE_HZ, Clip
from pipeline.models.store import resolve

SEARCH_MS = 60
"""A recogniser's word times are rough: the splice goes to the quietest 10 ms this near."""

FADE_MS = 5
SHORTEST_MS, LONGEST_MS = 300, 700


@dataclass(frozen=True, slots=True)
class Splice:
    """A clip with one pause. pause_ms: its length; after: the words before it."""

    clip: Clip
    pause_ms: int
    after: str


def splices(clips: Iterable[Clip], home: Path, seed: int = 1) -> list[Splice]:
    """One for every place between two words of each clip, but after the first; pauses are random.

    Word times come from the embedded Whisper. home: the model store.
    """
    from faster_whisper import WhisperModel

    folder = Path(resolve(home, "whisper-tiny.en"))
    whisper = WhisperModel(str(folder), device="cpu", compute_type="int8")
    random = np.random.default_rng(seed)
    made: list[Splice] = []
    for clip in clips:
        samples = clip.samples.astype(np.float32) / 32768
        segments, _ = whisper.transcribe(samples, word_timestamps=True)
        words = [word for segment in segments for word in segment.words or ()]
        for index in range(1, len(words) - 1):
            between_ms = (words[index].end + words[index + 1].start) * 500
            pause_ms = int(random.integers(SHORTEST_MS, LONGEST_MS + 1))
            said = "".join(word.word for word in words[: index + 1]).strip()
            made.append(splice(clip, between_ms, pause_ms, said))
    return made


def splice(clip: Clip, at_ms: float, pause_ms: int, after: str) -> Splice:
    """Put a pause into a clip near `at_ms`, with the clip's own quietest moments for its noise."""
    at = quietest(clip.samples, int(at_ms * CLIP_RATE_HZ / 1000))
    fade = FADE_MS * CLIP_RATE_HZ // 1000
    head, tail = clip.samples[:at].copy(), clip.samples[at:].copy()
    ramp = np.linspace(1, 0, min(fade, len(head)))
    head[len(head) - len(ramp) :] = head[len(head) - len(ramp) :] * ramp
    ramp = np.linspace(0, 1, min(fade, len(tail)))
    tail[: len(ramp)] = tail[: len(ramp)] * ramp
    silence = np.zeros(pause_ms * CLIP_RATE_HZ // 1000, np.int16)
    spliced = Clip(
        name=f"{clip.name}@{at * 1000 // CLIP_RATE_HZ}+{pause_ms}",
        samples=np.concatenate([head, silence, tail]),
        speech_start_ms=clip.speech_start_ms,
        speech_end_ms=clip.speech_end_ms + pause_ms,
        transcript=clip.transcript,
    )
    return Splice(spliced, pause_ms, after)


def quietest(samples: NDArray[np.int16], near: int) -> int:
    """The middle of the quietest 10 ms around a sample."""
    frame = CLIP_RATE_HZ // 100
    reach = SEARCH_MS * CLIP_RATE_HZ // 1000
    starts: Sequence[int] = range(max(near - reach, 0), min(near + reach, len(samples) - frame), 16)
    if not starts:
        return near
    loudness = [float(np.sum(samples[s : s + frame].astype(np.float64) ** 2)) for s in starts]
    return starts[int(np.argmin(loudness))] + frame // 2
