"""How well words were understood. Needs jiwer and whisper-normalizer, of the `dev` extra."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import jiwer
from whisper_normalizer.english import EnglishTextNormalizer


@cache
def _normalizer() -> EnglishTextNormalizer:
    return EnglishTextNormalizer()


def word_error_rate(said: Sequence[str], heard: Sequence[str]) -> float:
    """Errors over all words said, after Whisper's English normalisation; both in one order."""
    normalize = _normalizer()
    return float(jiwer.wer([normalize(text) for text in said], [normalize(t) for t in heard]))
