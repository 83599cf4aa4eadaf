"""Words that a Transcriber makes of no words.

Whisper learnt from films and videos with subtitles: on noise it writes what such subtitles say when
nobody speaks. Two signs of its own give it away, the probability of "no speech" at the start of a
window and the mean log-probability of what it wrote after all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from realtime.interruption import words

NO_SPEECH = 0.6
DOUBTFUL_LOGPROB = -1.0
"""Whisper's own thresholds (Radford et al., 2022, section 4.5)."""

STOCK_NO_SPEECH = 0.45
"""For phrases that are known to be invented, less is enough."""

_STOCK = frozenset(
    {
        "you",
        "bye",
        "bye bye",
        "thank you",
        "thank you very much",
        "thank you so much",
        "thanks",
        "thanks for watching",
        "thank you for watching",
        "please subscribe",
        "like and subscribe",
        "subscribe to my channel",
        "see you next time",
        "see you in the next video",
        "the end",
        "music",
        "applause",
        "silence",
        "blank audio",
        "i'm sorry",
        "so",
        "okay",
        "oh",
    }
)


def is_stock_phrase(text: str) -> bool:
    """Whether this is one of the things that Whisper writes for silence, noise or music."""
    return " ".join(words(text)) in _STOCK


def is_invented(text: str, meta: Mapping[str, Any]) -> bool:
    """Whether a transcript was made of no speech. meta: of the Transcriber's End.

    Without `no_speech_prob` in meta nothing is invented.
    """
    if not words(text):
        return True
    no_speech = float(meta.get("no_speech_prob", 0.0))
    logprob = float(meta.get("avg_logprob", 0.0))
    if no_speech >= NO_SPEECH and logprob <= DOUBTFUL_LOGPROB:
        return True
    return no_speech >= STOCK_NO_SPEECH and is_stock_phrase(text)
