"""Where a reply is cut into pieces to speak."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clauses import ClauseSplitter, Join, Piece


def pieces_of(text: str, *, latency_first: bool = True, size: int = 0) -> list[Piece]:
    splitter = ClauseSplitter(latency_first)
    deltas = [text[i : i + size] for i in range(0, len(text), size)] if size else [text]
    found = [piece for delta in deltas for piece in splitter.feed(delta)]
    return found + splitter.flush()


def texts(text: str, **options: bool) -> list[str]:
    return [piece.text.strip() for piece in pieces_of(text, **options)]


def test_latency_first_speaks_the_first_clause_at_once() -> None:
    splitter = ClauseSplitter(latency_first=True)
    assert splitter.feed("Well, ")[0] == Piece("Well, ", 0, 6, Join.COMMA)


def test_quality_first_waits_for_the_sentence() -> None:
    assert texts("Well, here we are. Now, go.", latency_first=False) == [
        "Well, here we are.",
        "Now, go.",
    ]


def test_a_long_beginning_is_cut_between_words_by_60_characters_or_so() -> None:
    first = pieces_of("word " * 60)[0]
    assert len(first.text) <= 75
    assert first.text.endswith(" ")
    assert first.join is Join.NONE


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Smith met Mr. J. K. Jones on St. James Street today.",
        "It is 3.14 or 1,000 at 10:30 precisely.",
        "See example.com or write to a.b@c.org today.",
        "Fruit, e.g. Apples, i.e. the red ones.",
    ],
)
def test_a_period_inside_a_word_or_after_a_title_ends_nothing(text: str) -> None:
    assert [p.text for p in pieces_of(text, latency_first=False)] == [text]


@pytest.mark.parametrize(
    ("text", "join"),
    [
        ("One sentence. Another.", Join.SENTENCE),
        ("Really? Yes.", Join.SENTENCE),
        ("First line\nsecond line", Join.SENTENCE),
        ("On the one hand, there is this.", Join.COMMA),
    ],
)
def test_the_join_fits_the_punctuation(text: str, join: Join) -> None:
    assert pieces_of(text)[0].join is join


@given(
    text=st.text(alphabet="ab .,!?\n1—é🎉\"'", max_size=200),
    size=st.integers(1, 20),
    latency_first=st.booleans(),
)
def test_pieces_are_the_whole_text_whatever_the_deltas(
    text: str, size: int, latency_first: bool
) -> None:
    pieces = pieces_of(text, size=size, latency_first=latency_first)
    assert "".join(piece.text for piece in pieces) == text[: len("".join(p.text for p in pieces))]
    assert not text[len("".join(piece.text for piece in pieces)) :].strip()
    for piece in pieces:
        assert text[piece.char_start : piece.char_end] == piece.text
