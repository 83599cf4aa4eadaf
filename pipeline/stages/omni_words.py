"""When the words of an omni model are said: an estimate, since nothing in the model tells."""

from __future__ import annotations

import re

CHARS_PER_S = 15.0
"""English, spoken at an ordinary pace."""

_WORD_END = re.compile(r"\S(?=\s|$)")

Spans = tuple[tuple[int, int, int], ...]


class WordClock:
    """Gives words to frames as they would be said at an even pace."""

    def __init__(self, frames_per_s: float) -> None:
        self._chars_per_frame = CHARS_PER_S / frames_per_s
        self._text = ""
        self._given = 0

    def hear(self, text: str) -> None:
        """The reply's text so far."""
        self._text = text

    def at(self, frames: int, *, over: bool, rest: bool = False) -> Spans:
        """Words said by this frame. over: the text is complete. rest: all that are left."""
        reach = (
            len(self._text) if rest else min(int(frames * self._chars_per_frame), len(self._text))
        )
        spans: list[tuple[int, int, int]] = []
        for match in _WORD_END.finditer(self._text, self._given):
            end = match.end()
            unfinished = end == len(self._text) and not over
            if end > reach or unfinished:
                break
            spans.append((self._given, end, frames))
            self._given = end
        return tuple(spans)
