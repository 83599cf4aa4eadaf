"""Cuts a reply that is still being written into pieces to speak: pure, incremental.

Latency first, the first piece is the first clause and pieces grow from there; quality first, a
piece is a whole sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["ClauseSplitter", "Join", "Piece"]


class Join(StrEnum):
    """What pause follows a piece."""

    NONE = "none"  # inside a phrase
    COMMA = "comma"
    SENTENCE = "sentence"


@dataclass(frozen=True, slots=True)
class Piece:
    """Text to speak in one go: code points [char_start, char_end) of the whole reply."""

    text: str
    char_start: int
    char_end: int
    join: Join


@dataclass(frozen=True, slots=True)
class _Limits:
    """clause_chars: a clause this long may end a piece at its comma; None: only a sentence may.
    piece_chars: a piece does not grow longer, if need be it is cut between words.
    """

    clause_chars: int | None
    piece_chars: int


_LATENCY = (_Limits(3, 60), _Limits(25, 110), _Limits(90, 200))  # first, second, later pieces
_QUALITY = (_Limits(None, 420),)

_GRACE = 15
"""How much longer than its limit a piece may be when that brings it to the end of its clause."""

_ENDERS = ".!?…。！？"
_PAUSERS = ",;:—–"
_CLOSERS = "\"'”’)]}*_`"
_EDGE = re.compile(
    rf"[{_ENDERS}]+[{re.escape(_CLOSERS)}]*|[{_PAUSERS}][{re.escape(_CLOSERS)}]*|\n+"
)
_WORD_BEFORE = re.compile(r"[^\s(\"“'‘\[*_]*$")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]?$")  # e.g, U.S, a single initial

# Their period never ends a sentence: a name or a number follows.
_BOUND = frozenset(
    "mr mrs ms dr prof st mt ft gen gov sen rep capt lt col sgt cmdr rev hon pres supt cpl maj "
    "messrs mme mlle fig vol no nos pp ch vs cf eg ie viz al approx est ed eds dept univ jan feb "
    "mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri".split()
)
# Theirs may: it does when a capital follows.
_LOOSE = frozenset("etc inc ltd co corp jr sr bros ave blvd rd a.m p.m am pm u.s u.k".split())
# A long run of words is cut in front of one of these rather than anywhere.
_LINKS = frozenset(
    "and but or nor so yet because although though while when where which who that if unless "
    "until since after before as than to of in on at for with from by into about through "
    "between without under over during".split()
)


class ClauseSplitter:
    """Feed deltas, take pieces; `flush` at the end of the text.

    The pieces' texts, in order, are the whole text but for white space at its end.
    """

    def __init__(self, latency_first: bool) -> None:
        self._ladder = _LATENCY if latency_first else _QUALITY
        self._text = ""  # not yet given out
        self._start = 0  # code points given out
        self._made = 0  # pieces with something to say
        self._scanned = 0  # edges before this were decided

    def feed(self, delta: str) -> list[Piece]:
        """Append text; the pieces that are complete now."""
        self._text += delta
        pieces = []
        while (cut := self._find_cut()) is not None:
            pieces.append(self._take(*cut))
        return pieces

    def flush(self) -> list[Piece]:
        """The text is over: what is left of it, but for white space at its end."""
        pieces = []
        if self._text.strip():
            pieces.append(self._take(len(self._text), Join.SENTENCE))
        return pieces

    @property
    def _limits(self) -> _Limits:
        return self._ladder[min(self._made, len(self._ladder) - 1)]

    def _take(self, end: int, join: Join) -> Piece:
        text = self._text[:end]
        piece = Piece(text, self._start, self._start + end, join)
        self._text = self._text[end:]
        self._start += end
        self._scanned = 0
        if any(c.isalnum() for c in text):
            self._made += 1
        return piece

    def _find_cut(self) -> tuple[int, Join] | None:
        limits = self._limits
        clause = 0  # the last comma a long piece could end at
        for edge in _EDGE.finditer(self._text, self._scanned):
            if edge.end() > limits.piece_chars + _GRACE:
                break
            join = self._judge(edge)
            if join is _UNDECIDED:
                break
            spoken = _spoken_length(self._text, edge.end())
            if join is Join.SENTENCE and (spoken or "\n" in edge.group()):
                return self._with_space(edge.end()), Join.SENTENCE
            if join is Join.COMMA and spoken:
                if limits.clause_chars is not None and spoken >= limits.clause_chars:
                    return self._with_space(edge.end()), Join.COMMA
                clause = edge.end()
            self._scanned = edge.end() if not clause else self._scanned
        if not self._is_long(limits):
            return None
        if clause and _spoken_length(self._text, clause) >= 12:
            return self._with_space(clause), Join.COMMA
        return self._cut_words(limits.piece_chars), Join.NONE

    def _is_long(self, limits: _Limits) -> bool:
        """Whether the piece has outgrown its limit and a space to cut at is in sight."""
        body = self._text.rstrip()
        return (
            len(body) > limits.piece_chars + _GRACE and " " in body[: limits.piece_chars].lstrip()
        )

    def _cut_words(self, limit: int) -> int:
        """Where to cut a run of words: in front of the last linking word, else the last word."""
        head = self._text[: limit + 1]
        spaces = [m.end() for m in re.finditer(r"\s+", head) if head[: m.start()].strip()]
        for at in reversed(spaces):
            word = re.match(r"[\w']*", self._text[at:])
            if at >= limit // 2 and word and word.group().lower() in _LINKS:
                return at
        return spaces[-1]

    def _with_space(self, end: int) -> int:
        """The cut after the white space that is already there."""
        while end < len(self._text) and self._text[end] in " \t":
            end += 1
        return end

    def _judge(self, edge: re.Match[str]) -> Join | None | _Undecided:
        """What ends here: a sentence, a clause, nothing, or not yet known."""
        text, mark = self._text, edge.group()
        after = text[edge.end() : edge.end() + 1]
        if mark[0] == "\n":
            return Join.SENTENCE
        if not after:
            return _UNDECIDED
        if mark[0] in "—–":
            return Join.COMMA
        if not after.isspace():
            # 3.14, 1,000, 10:30, example.com; but "word,\"and" and CJK stops do end something.
            return Join.SENTENCE if mark[0] in "。！？" else None
        if mark[0] in _PAUSERS:
            return Join.COMMA
        return self._judge_stop(edge)

    def _judge_stop(self, edge: re.Match[str]) -> Join | None | _Undecided:
        rest = self._text[edge.end() :]
        if "\n" in rest[: len(rest) - len(rest.lstrip())]:
            return Join.SENTENCE
        following = rest.lstrip()
        if not following:
            return _UNDECIDED
        if following[0].islower():
            return None
        if edge.group()[0] == "." and len(edge.group().rstrip(_CLOSERS)) == 1:
            before = _WORD_BEFORE.search(self._text[: edge.start()])
            word = before.group().lower() if before else ""
            if word in _BOUND or self._numbers_list(edge.start()):
                return None
            if word not in _LOOSE and (_DOTTED.search(word) or (len(word) == 1 and word != "i")):
                return None
        return Join.SENTENCE

    def _numbers_list(self, stop: int) -> bool:
        """Whether this period belongs to the number of a list item: "2. Stir well"."""
        line = self._text[:stop].rsplit("\n", 1)[-1].strip()
        return line.isdigit() and len(line) <= 3


class _Undecided:
    """More text is needed to tell what an edge is."""


_UNDECIDED = _Undecided()


def _spoken_length(text: str, end: int) -> int:
    """Length of the text up to `end` without its outer spaces, 0 when it has nothing to say."""
    head = text[:end].strip()
    return len(head) if any(c.isalnum() for c in head) else 0
