"""What is said of what is written, and which letters each spoken word came from."""

from __future__ import annotations

import pytest

from pipeline.spoken import SpokenForm


def say(text: str) -> str:
    return " ".join(word.text for word in SpokenForm().rewrite(text, 0))


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("This is **very** important.", "This is very important."),
        ("# Title\n\nText", "Title Text"),
        ("- one\n- two", "one two"),
        ("Great! 🎉👍", "Great!"),
        ("Use `print` here", "Use print here"),
        ("See [the docs](https://example.com/x).", "See the docs."),
        ("<think>hidden</think>Hello", "Hello"),
        ("Look:\n```python\nx = 1\n```\nDone", "Look: Done"),
        ("| a | b |\n|---|---|\n| c | d |", "a b c d"),
        ("5 km away", "five kilometers away"),
        ("at 10:30", "at ten thirty"),
    ],
)
def test_marks_are_not_spoken_and_short_forms_are_read_out(written: str, spoken: str) -> None:
    assert say(written) == spoken


def test_a_thought_that_is_split_over_pieces_stays_hidden() -> None:
    form = SpokenForm()
    assert form.rewrite("Hm. <think>Let me", 0)[0].text == "Hm."
    assert form.rewrite(" see, carefully.", 17) == []
    assert [w.text for w in form.rewrite("</think> Yes.", 33)] == ["Yes."]


def test_every_spoken_word_knows_the_letters_it_came_from() -> None:
    text = "At 10:30 they ran **5 km** home."
    words = SpokenForm().rewrite(text, 100)
    sources = [text[word.char_start - 100 : word.char_end - 100] for word in words]
    assert list(zip([word.text for word in words], sources, strict=True)) == [
        ("At", "At"),
        ("ten", "10:30"),
        ("thirty", "10:30"),
        ("they", "they"),
        ("ran", "ran"),
        ("five", "5 km**"),
        ("kilometers", "5 km**"),
        ("home.", "home."),
    ]
