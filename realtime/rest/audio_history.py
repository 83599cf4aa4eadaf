"""What was said in spoken answers, so that a client can refer to one by its id.

A cascade's model reads words, so only the words are kept: for an hour, within bounds, and only for
the key that they were made for.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

LIFE_S = 3600
MAX_ANSWERS = 4096
MAX_CHARS = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Answer:
    owner: str
    transcript: str
    expires_at: float


class AudioHistory:
    """The answers, oldest first."""

    def __init__(
        self,
        *,
        max_answers: int = MAX_ANSWERS,
        max_chars: int = MAX_CHARS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._max_answers = max_answers
        self._max_chars = max_chars
        self._now = now
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._chars = 0

    def __len__(self) -> int:
        return len(self._answers)

    def expiry(self) -> int:
        """When an answer that is given now is forgotten, in seconds of Unix time."""
        return int(self._now()) + LIFE_S

    def keep(self, answer_id: str, owner: str, transcript: str, expires_at: int) -> None:
        """Remember an answer. owner: the key of whoever asked."""
        self._answers[answer_id] = _Answer(owner, transcript, expires_at)
        self._chars += len(transcript)
        while self._answers and (
            len(self._answers) > self._max_answers or self._chars > self._max_chars
        ):
            self._forget_oldest()

    def find(self, answer_id: str, owner: str) -> str | None:
        """What was said; None for what is unknown, expired, or somebody else's."""
        now = self._now()
        while self._answers and next(iter(self._answers.values())).expires_at <= now:
            self._forget_oldest()
        answer = self._answers.get(answer_id)
        return answer.transcript if answer is not None and answer.owner == owner else None

    def _forget_oldest(self) -> None:
        _, answer = self._answers.popitem(last=False)
        self._chars -= len(answer.transcript)
