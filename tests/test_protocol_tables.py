"""The page of all events and fields is what the models say."""

from __future__ import annotations

from protocol_tables import NOTES, PAGE, ItemHolder, page, plain, rows

from realtime.protocol.config import SessionConfig
from realtime.protocol.responses import ResponseParams


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tests/protocol_tables.py"


def test_no_remark_is_about_a_field_that_is_gone() -> None:
    known = {plain(path) for path, _, _ in rows(SessionConfig, "session")}
    known |= {plain(path) for path, _, _ in rows(ResponseParams, "response")}
    known |= {plain(path) for path, _, _ in rows(ItemHolder)}
    assert set(NOTES) <= known
