"""A turn of the user until its commit, and the work begun on the guess that it is over."""

from __future__ import annotations

from dataclasses import dataclass

from realtime.conversation import Entry
from realtime.turn_end import (
    LATER_JUDGEMENTS_MS,
    SOUNDS_FINISHED,
    Completeness,
    completeness,
)


@dataclass(slots=True)
class OpenTurn:
    """What is known of a turn that is not committed yet.

    item_id: the item it will be, known to the client. start_sample: of its audio, at 16 kHz.
    guess: that item, being transcribed since the last pause; None while there is no guess.
    may_guess: once in a pause. stop_prob: of the guess's transcript. sound: whether it sounds
    finished; judging: the request that finds out. judgements: how often it was asked in this pause.
    revisions: how many guesses were dropped. doubted: it may be no turn: the reply it began in is
    paused. over: what that reply had said.
    """

    item_id: str
    start_sample: int
    guess: Entry | None = None
    may_guess: bool = True
    stop_prob: float | None = None
    sound: float | None = None
    judging: str | None = None
    judgements: int = 0
    revisions: int = 0
    doubted: bool = False
    over: str = ""

    @property
    def text(self) -> str | None:
        """What was said up to the pause, if it is known."""
        return None if self.guess is None or self.guess.pending else self.guess.text()

    def judgement_is_due(self, silence_ms: int) -> bool:
        """Whether the sound is to be judged (again): once the words leave it open, and later.

        A sentence that is surely finished needs no second witness, and its reply needs the core.
        """
        if self.judging is not None or not self.text:
            return False
        if completeness(self.text, self.stop_prob) is Completeness.FINISHED:
            return False
        if self.sound is not None and self.sound >= SOUNDS_FINISHED:
            return False
        if self.judgements == 0:
            return True
        later = LATER_JUDGEMENTS_MS[self.judgements - 1 :]
        return bool(later) and silence_ms >= later[0]

    def give_up_judging(self) -> None:
        """The turn detector is out of order: do without it in this pause."""
        self.judgements = 1 + len(LATER_JUDGEMENTS_MS)

    def resume(self) -> None:
        """The user goes on: what was found out in the pause is void."""
        self.guess = self.stop_prob = self.sound = self.judging = None
        self.revisions += 1
        self.judgements = 0
