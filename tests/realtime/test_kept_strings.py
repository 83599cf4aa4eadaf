"""What clients say is not kept once it is over."""

from __future__ import annotations

import tracemalloc

from realtime.protocol.parsing import parse_event

EVENTS = 3000


def parse(first: int) -> None:
    for number in range(first, first + EVENTS):
        item_id = f"an_item_of_a_session_that_is_over_{number}"
        parse_event({"type": "conversation.item.delete", "item_id": item_id})


def test_strings_of_events_are_not_kept() -> None:
    parse(0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        parse(EVENTS)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / EVENTS < 1  # bytes an event
