"""What is left of a conversation that is longer than the model's context."""

from __future__ import annotations

import pytest

from pipeline.messages import PromptItem, Retention
from pipeline.stages.llama_window import SESSIONS, Window, Windows

SYSTEM = PromptItem("system", "Be brief.")
ROOM = 100


def turns(count: int) -> list[PromptItem]:
    items = []
    for i in range(count):
        items.append(PromptItem("user", f"Question {i}. " + "word " * 20))
        items.append(PromptItem("assistant", f"Answer {i}. " + "word " * 20))
    return items


def tokens(items: list[PromptItem], per_byte: float = 0.3) -> float:
    return sum(len(item.text.encode()) + 16 for item in items) * per_byte


def test_what_fits_is_left_alone() -> None:
    items = [SYSTEM, *turns(3)]
    assert Window(1000).fit(items, ROOM) == items


def test_the_oldest_turns_go_and_instructions_and_the_last_item_stay() -> None:
    items = [SYSTEM, *turns(30), PromptItem("user", "And now?")]
    kept = Window(1000).fit(items, ROOM)
    assert kept[0] == SYSTEM
    assert kept[1:] == items[-len(kept) + 1 :]
    assert kept[1].role == "user"
    assert 450 < tokens(kept) <= 900


@pytest.mark.parametrize("ratio", [0.2, 0.5, 0.9])
def test_a_client_may_say_how_much_is_kept(ratio: float) -> None:
    items = [SYSTEM, *turns(30), PromptItem("user", "And now?")]
    kept = Window(1000).fit(items, ROOM, Retention(ratio=ratio))
    # Whole turns of about 80 tokens go, so that less is left by at most one of them.
    assert 900 * ratio - 90 < tokens(kept) <= 900 * ratio


def test_a_client_may_ask_for_less_than_the_context_holds() -> None:
    items = [SYSTEM, *turns(5), PromptItem("user", "And now?")]
    assert Window(1000).fit(items, ROOM) == items
    kept = Window(1000).fit(items, ROOM, Retention(ratio=1.0, max_tokens=300))
    assert 200 < tokens(kept[1:]) <= 300


def test_a_client_may_forbid_that_anything_is_dropped() -> None:
    items = [SYSTEM, *turns(30), PromptItem("user", "And now?")]
    assert Window(1000).fit(items, ROOM, Retention(drop=False)) == items


def test_what_has_been_dropped_stays_dropped_for_some_turns() -> None:
    window = Window(1000)
    conversation = turns(40)
    beginnings = []
    for count in range(30, 60, 2):
        kept = window.fit([SYSTEM, *conversation[:count], PromptItem("user", "So?")], ROOM)
        assert tokens(kept) <= 900
        beginnings.append(kept[1].text)
    changes = sum(a != b for a, b in zip(beginnings, beginnings[1:], strict=False))
    assert 1 <= changes <= 6


def test_a_conversation_that_became_short_is_whole_again() -> None:
    window = Window(1000)
    window.fit([SYSTEM, *turns(30), PromptItem("user", "So?")], ROOM)
    short = [SYSTEM, *turns(2), PromptItem("user", "So?")]
    assert window.fit(short, ROOM) == short


def test_lengths_are_learnt_from_the_model() -> None:
    window = Window(1000)
    items = [SYSTEM, *turns(6), PromptItem("user", "So?")]
    assert window.fit(items, ROOM) == items
    window.learn(items, 2000)
    kept = window.fit(items, ROOM)
    assert len(kept) < len(items)
    rate = 2000 / tokens(items, 1.0)
    assert tokens(kept, rate) <= 900


def test_a_single_item_stays_however_long_it_is() -> None:
    items = [SYSTEM, PromptItem("user", "word " * 5000)]
    window = Window(1000)
    assert window.fit(items, ROOM) == items
    assert window.fit([*items, PromptItem("user", "So?")], ROOM) == [
        SYSTEM,
        PromptItem("user", "So?"),
    ]


def test_windows_are_kept_per_session_and_only_so_many() -> None:
    windows = Windows(1000)
    first = windows.of("a")
    assert windows.of("a") is first
    assert windows.of("") is not windows.of("")
    for i in range(SESSIONS):
        windows.of(f"s{i}")
    assert windows.of("a") is not first
