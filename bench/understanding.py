"""How well words were understood. Needs jiwer and whisper-normalizer, of the `dev` extra."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import jiwer
from whisper_normalizer.english import EnglishTextNormalizer

_A_HUNDRED = re.compile(r"\ba (100|1000)\b")


@cache
def _normalizer() -> EnglishTextNormalizer:
    return EnglishTextNormalizer()


def word_error_rate(said: Sequence[str], heard: Sequence[str]) -> float:
    """Errors over all words said, after Whisper's English normalisation; both in one order."""
    return float(jiwer.wer([normalized(text) for text in said], [normalized(t) for t in heard]))


def normalized(text: str) -> str:
    """As Whisper's normaliser writes it, and "a hundred" as the 100 that it is."""
    return _A_HUNDRED.sub(r"\1", _normalizer()(text))
