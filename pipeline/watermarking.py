"""Which mark the VoiceBox's worker puts into what it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pipeline.config import EngineConfig
from pipeline.plain import Plain
from pipeline.stage import Stage
from pipeline.watermark_key import watermark_key

if TYPE_CHECKING:
    from audio.watermark.embedder import Watermark


@dataclass(frozen=True, slots=True)
class Mark(Plain):
    """For a worker: everything a mark is made of."""

    backend: str
    payload: int
    key: bytes = field(repr=False)  # empty for a backend that takes none
    weights: str = ""


def mark_of(config: EngineConfig) -> Mark | None:
    """None if the configuration turns it off. Raises StartFailed if there can be no key."""
    if not config.watermark.enabled:
        return None
    wish = config.watermark
    key = watermark_key(config) if wish.backend == "sori" else b""
    return Mark(wish.backend, wish.payload, key, wish.weights)


def marked(stage: Stage, mark: Mark) -> Stage:
    """The stage with a mark in its audio. Raises as `watermark_factory`."""
    # The server, which only passes marks on, need not load what makes them.
    from pipeline.stages.marked_voicebox import MarkedVoiceBox

    return MarkedVoiceBox(stage, watermark_factory(mark))


def watermark_factory(mark: Mark) -> Callable[[], Watermark]:
    """Makes the watermark of one stream after the other.

    Raises ImportError if the backend is not installed, RuntimeError if it has no weights.
    """
    if mark.backend == "audioseal":
        from pipeline.stages.audioseal_mark import AudioSealMark, load_generator

        return partial(AudioSealMark, load_generator(mark.weights, mark.payload))
    from audio.watermark.embedder import Embedder

    return partial(Embedder, mark.key, mark.payload)
