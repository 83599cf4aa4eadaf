"""Whether the user has finished: the decision of `semantic_vad`, as a pure function.

Three witnesses are heard. The length of the silence is never wrong and always late. The sound
(Smart Turn) hears a falling voice, but often takes a clean stop in mid-sentence for an end, and a
tired end for a pause. The text knows a sentence that lacks its object, but Whisper is generous with
full stops. So each combination has its own patience, and the question is asked again as the silence
grows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Literal

Eagerness = Literal["low", "medium", "high", "auto"]

SOUNDS_FINISHED = 0.5
"""The model's own threshold; its scores are mostly near 0 or 1."""

DOUBTFUL_LOGPROB = -0.6
"""Below this mean log-probability of its tokens, the full stop of a transcript says nothing."""

EVIDENCE_PATIENCE_MS = 1500
"""Silence after which a transcript or a judgement that is late is no longer waited for."""

PREPARATION_PATIENCE_MS = 650
"""Silence after which a turn ends though its reply cannot be heard yet. Before that nothing is lost
by waiting, and a user who goes on is not cut off."""

LATER_JUDGEMENTS_MS = (400, 800)
"""Lengths of silence at which the sound is judged again, if it did not sound finished."""


class Completeness(Enum):
    """What a transcript says of whether its speaker has finished."""

    FINISHED = "finished"
    UNCLEAR = "unclear"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of an open turn that has fallen silent.

    text: what was said; None if it is not known. logprob: mean log-probability of its tokens.
    sound: probability that it sounds finished; None if it was not judged.
    pending: text or sound is on its way.
    prepared: whatever answers the turn can be heard at once, or nothing is being prepared.
    """

    silence_ms: int
    text: str | None = None
    logprob: float | None = None
    sound: float | None = None
    pending: bool = False
    prepared: bool = True


@dataclass(frozen=True, slots=True)
class _Patience:
    """Silence that ends a turn, in milliseconds, by what the witnesses say.

    agreed: text and sound are finished. text_only: the sound is not. sound_only: the text is
    unclear. doubtful: one says unfinished and the other does not say finished, or contradicts.
    unfinished: both say unfinished.
    """

    agreed: int
    text_only: int
    sound_only: int
    doubtful: int
    unfinished: int


_PATIENCE: dict[Eagerness, _Patience] = {
    "low": _Patience(400, 800, 1200, 1500, 8000),
    "medium": _Patience(200, 500, 800, 1000, 4000),
    "auto": _Patience(200, 500, 800, 1000, 4000),
    "high": _Patience(200, 350, 500, 700, 2000),
}


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
    patience = _PATIENCE[eagerness]
    text = completeness(evidence.text, evidence.logprob)
    finished_sound = evidence.sound is not None and evidence.sound >= SOUNDS_FINISHED
    match text, finished_sound:
        case Completeness.FINISHED, True:
            return patience.agreed
        case Completeness.FINISHED, False:
            return patience.text_only
        case Completeness.UNCLEAR, True:
            return patience.sound_only
        case Completeness.UNFINISHED, False if evidence.sound is not None:
            return patience.unfinished
        case _:
            return patience.doubtful


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


def completeness(text: str | None, logprob: float | None = None) -> Completeness:
    """What the words and their punctuation say. logprob: mean over the transcript's tokens."""
    if text is None or not (words := _WORD.findall(text.lower())):
        return Completeness.UNCLEAR
    last = words[-1]
    stopped = _FULL_STOP.search(text)
    if stopped is not None and stopped.group().startswith("?"):
        return Completeness.FINISHED
    if _OPEN_END.search(text) or last in _FILLERS:
        return Completeness.UNFINISHED
    if stopped is None:
        return Completeness.UNFINISHED if last in _HANGING else Completeness.UNCLEAR
    if last in _ARTICLES:
        return Completeness.UNFINISHED
    doubtful = logprob is not None and logprob < DOUBTFUL_LOGPROB
    return Completeness.UNCLEAR if doubtful or last in _HANGING else Completeness.FINISHED
