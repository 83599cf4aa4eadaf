"""Whether what is heard during a reply is an interruption, or nothing that was meant for it."""

from __future__ import annotations

import re
from collections.abc import Collection

CONFIRM_MS = 500
"""Speech this long is an interruption, whatever it says."""

BACKCHANNELS = ("mhm", "mm", "mmm", "mm hmm", "mmhmm", "uh huh", "hm", "hmm", "aha")
"""What listeners say to be told more."""

ECHO_MIN_WORDS = 2
ECHO_SHARE = 0.75
"""This share of the words heard, in the order in which Sori said them, is Sori itself."""

ECHO_REACH_WORDS = 60
"""Echo is of what was said just now: words further back are no reason to distrust the user."""

_WORD = re.compile(r"[a-z0-9']+")


def words(text: str) -> list[str]:
    """In lower case, without punctuation."""
    return _WORD.findall(text.lower())


def is_backchannel(text: str, backchannels: Collection[str]) -> bool:
    """Whether the text is one of the phrases, said once or over and over."""
    said = " ".join(words(text))
    if not said:
        return False
    known = sorted((" ".join(words(phrase)) for phrase in backchannels), key=len, reverse=True)
    while said:
        phrase = next((one for one in known if one and (said + " ").startswith(one + " ")), None)
        if phrase is None:
            return False
        said = said[len(phrase) :].strip()
    return True


def is_echo(heard: str, said: str) -> bool:
    """Whether `heard` repeats what Sori was just saying: a loudspeaker without echo cancellation.

    One word is no evidence, and a user who repeats a whole phrase of Sori's is taken for its echo.
    """
    heard_words, said_words = words(heard), words(said)[-ECHO_REACH_WORDS:]
    if len(heard_words) < ECHO_MIN_WORDS:
        return False
    return _longest_common(heard_words, said_words) >= ECHO_SHARE * len(heard_words)


def _longest_common(a: list[str], b: list[str]) -> int:
    """Length of the longest common subsequence."""
    best = [0] * (len(b) + 1)
    for word in a:
        diagonal = 0
        for j, other in enumerate(b, 1):
            above = best[j]
            best[j] = diagonal + 1 if word == other else max(above, best[j - 1])
            diagonal = above
    return best[-1]
