"""What is said of a text: its words as they are spoken, each with the characters it stands for.

Markup, code and emoji are not read out; numbers, dates, units and abbreviations become words. The
spans let the audio of a spoken word be traced back to the reply's own text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from hibari.g2p.normalize import normalize

from pipeline.readings import read_numbers, read_out

__all__ = ["SpokenForm", "SpokenWord"]


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """One word as it is read, and the code points [char_start, char_end) it stands for.

    Several spoken words may share a span ("1/2" is "one half"), and one may cover many.
    """

    text: str
    char_start: int
    char_end: int


_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*(?:\n|$)", re.MULTILINE)
_THINK = re.compile(r"</?think>", re.IGNORECASE)
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]*|[-*+•][ \t]+|\|)", re.MULTILINE)
_RULE = re.compile(
    r"^[ \t]*(?:[-*_=][ \t]*){3,}$|^[ \t]*\|?(?:[ \t]*:?-{2,}:?[ \t]*\|?)+$", re.MULTILINE
)
_EMPHASIS = re.compile(
    r"(?<!\d)\*+|\*+(?!\d)|~~|`+|(?<!\w)_+(?=\w)|(?<=\w)_+(?!\w)|(?<=[^\w\s])_+(?!\w)"
)
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]*>")
_SPOKEN_SYMBOLS = "°©®™№℃℉"
_JOINERS = "\u200d\ufe0e\ufe0f\u20e3"  # they hold emoji together


class SpokenForm:
    """Rewrites a reply piece by piece; remembers the code or thought that a piece left open."""

    def __init__(self) -> None:
        self._in_code = False
        self._in_thought = False

    def rewrite(self, text: str, char_start: int) -> list[SpokenWord]:
        """The words to say of the next piece; `char_start` is its place in the whole reply."""
        kept = self._strip(text)
        words = list(_written_words(text, kept))
        plain = " ".join(word.text for word in words)
        spoken = _reading(plain).split()
        return [
            SpokenWord(word, char_start + first, char_start + last)
            for word, first, last in _trace(words, spoken)
        ]

    def _strip(self, text: str) -> list[str]:
        """One string per character of the text: itself, a space, or nothing if it is not said."""
        kept = list(text)
        for start, end in self._hidden(text):
            _erase(kept, start, end)
        for link in _LINK.finditer(text):
            _erase(kept, link.start(), link.start(1))
            _erase(kept, link.end(1), link.end())
        for pattern in (_RULE, _LINE_MARK, _TAG, _EMPHASIS):
            for mark in pattern.finditer(text):
                _erase(kept, mark.start(), mark.end())
        for i, character in enumerate(text):
            if character == "|":
                kept[i] = " "
            elif character in _JOINERS or (
                unicodedata.category(character) in ("So", "Sk", "Cs", "Co")
                and character not in _SPOKEN_SYMBOLS + "^`"
            ):
                kept[i] = " "
        return kept

    def _hidden(self, text: str) -> Iterator[tuple[int, int]]:
        """Spans of code blocks and thoughts, with their marks."""
        marks = [(m.start(), m.end(), "code") for m in _FENCE.finditer(text)]
        marks += [(m.start(), m.end(), m.group().lower()) for m in _THINK.finditer(text)]
        since = 0
        for start, end, kind in sorted(marks):
            if self._in_code or self._in_thought:
                yield since, start
            yield start, end
            since = end
            if kind == "code":
                self._in_code = not self._in_code
            else:
                self._in_thought = kind == "<think>"
        if self._in_code or self._in_thought:
            yield since, len(text)


def _reading(text: str) -> str:
    """In words. hibari's own rules, for dates, clock times and units, come in the middle."""
    return read_numbers(normalize(read_out(text)))


def _erase(kept: list[str], start: int, end: int) -> None:
    for i in range(start, end):
        kept[i] = " " if kept[i].isspace() else ""


def _written_words(text: str, kept: list[str]) -> Iterator[SpokenWord]:
    """The words that are left, each with the marks around it that touch it."""
    said = [i for i, part in enumerate(kept) if part and not part.isspace()]
    runs: list[list[int]] = []
    for i in said:
        if runs and not any(part.isspace() for part in kept[runs[-1][1] : i]):
            runs[-1][1] = i + 1
        else:
            runs.append([i, i + 1])
    for k, (start, end) in enumerate(runs):
        limit = runs[k + 1][0] if k + 1 < len(runs) else len(text)
        spoken = "".join(kept[start:end])
        while end < limit and not text[end].isspace():
            end += 1
        yield SpokenWord(spoken, start, end)


def _trace(written: list[SpokenWord], spoken: list[str]) -> Iterator[tuple[str, int, int]]:
    """Each spoken word with the span of what was written for it."""
    plain = [word.text.replace("’", "'") for word in written]
    matcher = SequenceMatcher(None, plain, spoken, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            for word, source in zip(spoken[c:d], written[a:b], strict=True):
                yield word, source.char_start, source.char_end
        elif kind == "insert":
            source = written[max(a - 1, 0)]
            for word in spoken[c:d]:
                yield word, source.char_start, source.char_end
        elif kind == "replace":
            yield from _trace_change(written[a:b], spoken[c:d])


def _trace_change(written: list[SpokenWord], spoken: list[str]) -> Iterator[tuple[str, int, int]]:
    """A stretch that reads differently: word by word where each has a reading of its own."""
    readings = [_reading(word.text).split() for word in written]
    if [word for reading in readings for word in reading] != spoken:
        # They only make sense together, as in "3 May": they share one span.
        for word in spoken:
            yield word, written[0].char_start, written[-1].char_end
        return
    for source, reading in zip(written, readings, strict=True):
        for word in reading:
            yield word, source.char_start, source.char_end
