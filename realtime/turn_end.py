"""Whether the user has finished: the decision of `semantic_vad`, as a pure function.

Three witnesses are heard. The length of the silence is never wrong and always late. The sound
(Smart Turn) hears a falling voice, but often takes a clean stop in mid-sentence for an end, and a
tired end for a pause. The text knows a sentence that lacks its object: how probable a full stop was
to the Transcriber says more than whether it wrote one. So each combination has its own patience,
and the question is asked again as the silence grows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Literal

Eagerness = Literal["low", "medium", "high", "auto"]

SOUNDS_FINISHED = 0.5
"""The model's own threshold; its scores are mostly near 0 or 1."""

SURE_STOP, LIKELY_STOP, UNLIKELY_STOP = 0.8, 0.3, 0.1
"""Probabilities of a sentence's end after the last word. On recordings cut between all their words,
ends were at 0.45 to 0.96 and nine in ten cuts of an unfinished sentence below 0.25."""

EVIDENCE_PATIENCE_MS = 1500
"""Silence after which a transcript or a judgement that is late is no longer waited for."""

PREPARATION_PATIENCE_MS = 650
"""Silence after which a turn ends though its reply cannot be heard yet. Before that nothing is lost
by waiting, and a user who goes on is not cut off."""

LATER_JUDGEMENTS_MS = (400, 800)
"""Lengths of silence at which the sound is judged again, if it did not sound finished."""

LONGEST_WAIT_FOR_PAUSE_MS = 5000
"""How far a turn that is too long may go on until a pause, before it is cut in a word."""


class Completeness(Enum):
    """What a transcript says of whether its speaker has finished."""

    FINISHED = "finished"
    LIKELY = "likely"
    UNCLEAR = "unclear"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of an open turn that has fallen silent.

    text: what was said; None if it is not known. stop_prob: probability that it ends a sentence, if
    the Transcriber tells.
    sound: probability that it sounds finished; None if it was not judged.
    pending: text or sound is on its way.
    prepared: whatever answers the turn can be heard at once, or nothing is being prepared.
    """

    silence_ms: int
    text: str | None = None
    stop_prob: float | None = None
    sound: float | None = None
    pending: bool = False
    prepared: bool = True


_FINISHED, _LIKELY, _UNCLEAR, _UNFINISHED = Completeness

_PATIENCE_MS: dict[Eagerness, dict[tuple[Completeness, bool], int]] = {
    # Silence that ends a turn, by what the text says and whether the sound is finished.
    "low": {
        (_FINISHED, True): 400,
        (_FINISHED, False): 800,
        (_LIKELY, True): 700,
        (_LIKELY, False): 1200,
        (_UNCLEAR, True): 1200,
        (_UNCLEAR, False): 1500,
        (_UNFINISHED, True): 1500,
        (_UNFINISHED, False): 8000,
    },
    "medium": {
        (_FINISHED, True): 200,
        (_FINISHED, False): 450,
        (_LIKELY, True): 400,
        (_LIKELY, False): 700,
        (_UNCLEAR, True): 800,
        (_UNCLEAR, False): 1000,
        (_UNFINISHED, True): 1000,
        (_UNFINISHED, False): 4000,
    },
    "high": {
        (_FINISHED, True): 200,
        (_FINISHED, False): 350,
        (_LIKELY, True): 300,
        (_LIKELY, False): 500,
        (_UNCLEAR, True): 500,
        (_UNCLEAR, False): 700,
        (_UNFINISHED, True): 700,
        (_UNFINISHED, False): 2000,
    },
}
_PATIENCE_MS["auto"] = _PATIENCE_MS["medium"]


def turn_has_ended(eagerness: Eagerness, evidence: Evidence) -> bool:
    """The decision. Asked with every window of silence, and with every new witness."""
    silence_ms = evidence.silence_ms
    if evidence.pending and silence_ms < EVIDENCE_PATIENCE_MS:
        return False
    if silence_ms < required_silence_ms(eagerness, evidence):
        return False
    return evidence.prepared or silence_ms >= PREPARATION_PATIENCE_MS


def required_silence_ms(eagerness: Eagerness, evidence: Evidence) -> int:
    """How much silence ends the turn, by the evidence there is."""
    text = completeness(evidence.text, evidence.stop_prob)
    sounds_finished = evidence.sound is not None and evidence.sound >= SOUNDS_FINISHED
    if evidence.sound is None:
        # Neither the longest wait nor a doubt about a finished sentence comes from one witness.
        sounds_finished = text is Completeness.FINISHED
        text = Completeness.UNCLEAR if text is Completeness.UNFINISHED else text
    return _PATIENCE_MS[eagerness][text, sounds_finished]


def is_too_long(turn_ms: int, limit_ms: int, *, paused: bool) -> bool:
    """Whether a turn that nothing has ended is taken as it is, for it has lasted limit_ms.

    A voice that never rests, or a radio, would otherwise be kept for ever and never answered.
    """
    return turn_ms >= limit_ms + (0 if paused else LONGEST_WAIT_FOR_PAUSE_MS)


# -- the text --------------------------------------------------------------------------------------

_HANGING = frozenset(
    # Words that no English sentence ends with, or hardly one.
    "a an the this these those my your our their its and or but because although though unless "
    "while whereas if whether of with from into onto upon between among about than as like such "
    "very really quite rather more most some any every each i we they he she who whose which "
    "is are was were am be been will would shall should could can may might must do does did "
    "have has had i'm i'll i'd i've we're we'll they're he's she's it's that's there's what's "
    "let's gonna wanna to for at by on in so then also just even maybe please".split()
)
_ARTICLES = frozenset(
    # Not even a full stop makes an end of these.
    "a an the my your our their its and or but because than of if".split()
)
_FILLERS = frozenset("um uh er erm hmm hm mm well like uhm ah".split())
_WORD = re.compile(r"[\w']+")
_OPEN_END = re.compile(r"(\.\.+|…|[,;:\-–—(])[\s\"']*$")
_FULL_STOP = re.compile(r"[.!?][\s\"')\]]*$")


def completeness(text: str | None, stop_prob: float | None = None) -> Completeness:
    """What words and punctuation say, and the Transcriber's `stop_prob` if there is one."""
    if text is None or not (words := _WORD.findall(text.lower())):
        return Completeness.UNCLEAR
    stopped = _FULL_STOP.search(text)
    if stopped is not None and stopped.group().startswith("?"):
        return Completeness.FINISHED
    last = words[-1]
    if _OPEN_END.search(text) or last in _FILLERS or last in _ARTICLES:
        return Completeness.UNFINISHED
    if stop_prob is not None:
        return _graded(stop_prob)
    if stopped is None:
        return Completeness.UNFINISHED if last in _HANGING else Completeness.UNCLEAR
    return Completeness.UNCLEAR if last in _HANGING else Completeness.FINISHED


def _graded(stop_prob: float) -> Completeness:
    if stop_prob >= SURE_STOP:
        return Completeness.FINISHED
    if stop_prob >= LIKELY_STOP:
        return Completeness.LIKELY
    return Completeness.UNCLEAR if stop_prob >= UNLIKELY_STOP else Completeness.UNFINISHED
