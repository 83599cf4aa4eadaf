"""How what is written short is read out: a table of cases, and what must hold of any text."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.readings import read_numbers, read_out
from pipeline.spoken import SpokenForm

TABLE = Path(__file__).with_name("readings.tsv")


def cases() -> list[tuple[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [(row["written"].replace("\\n", "\n"), row["spoken"]) for row in rows]


def say(text: str) -> str:
    return " ".join(word.text for word in SpokenForm().rewrite(text, 0))


def test_the_table_is_long_enough_to_be_one() -> None:
    assert len(cases()) >= 150
    assert len({written for written, _ in cases()}) == len(cases())


@pytest.mark.parametrize(("written", "spoken"), cases())
def test_what_is_written_short_is_read_out(written: str, spoken: str) -> None:
    assert say(written) == spoken


def test_an_answer_in_markdown_sounds_like_a_person_reading_it() -> None:
    written = (
        "## Prices in 2024\n\n"
        "Here is **what I found** (see [the shop](https://shop.example.com/a/b)):\n\n"
        "| item | price |\n|------|------:|\n| tea | $3.50 |\n| 2 cups | £10 |\n\n"
        "```python\nprint('hidden')\n```\n"
        "1. Call 555-1234 by 5pm 📞\n"
        "2. Ask for Dr. Smith, e.g. on May 3\n"
    )
    assert (
        say(written).split()
        == (
            "Prices in twenty twenty-four Here is what I found (see the shop): "
            "item price tea three dollars and fifty cents two cups ten pounds "
            "one. Call five five five, one two three four by five P.M. "
            "two. Ask for Dr Smith, for example on May third"
        ).split()
    )


texts = st.text(
    st.characters(categories=("L", "N", "P", "S", "Z"), max_codepoint=0x2FFF), max_size=80
)


@given(texts)
@settings(max_examples=300, deadline=None)
def test_any_text_can_be_read_and_no_digit_is_left(text: str) -> None:
    read = read_numbers(read_out(text))
    assert not any(character in "0123456789" for character in read)


@given(texts)
@settings(max_examples=300, deadline=None)
def test_spans_run_forward_and_stay_inside(text: str) -> None:
    words = SpokenForm().rewrite(text, 100)
    starts = [word.char_start for word in words]
    assert starts == sorted(starts)
    assert all(100 <= word.char_start < word.char_end <= 100 + len(text) for word in words)


@pytest.mark.parametrize(
    "text", ["9" * 5000, "1," * 3000, "a" * 5000, "(" * 5000, "1/" * 3000, "$" * 3000, "a.b" * 2000]
)
def test_no_text_takes_long(text: str) -> None:
    began_s = time.process_time()
    read_numbers(read_out(text))
    # A bound that only a reading quadratic in the text would miss, by far.
    assert time.process_time() - began_s < 5
