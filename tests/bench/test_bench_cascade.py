"""What `sori bench cascade` makes of two servers."""

import pytest
from realtime_double import Behaviour, realtime_double

from bench.cascade import PROMPTS, ask_all, first_audio_ms, first_audio_ratio
from bench.report import summarise


async def test_the_slower_server_shows_in_the_ratio() -> None:
    slow = Behaviour(wait_s=0.2)
    with realtime_double() as streamed, realtime_double(slow) as sequential:
        urls = {"streamed": streamed, "sequential": sequential}
        turns = await ask_all(urls, PROMPTS[:2])
    rows = {mode: summarise(first_audio_ms(turn) for turn in turns[mode]) for mode in urls}
    assert {mode: len(turns[mode]) for mode in urls} == {"streamed": 2, "sequential": 2}
    ratio = first_audio_ratio(rows)
    assert ratio is not None
    assert ratio > 1.5


async def test_replies_of_one_sentence_are_not_compared() -> None:
    with realtime_double(Behaviour(text="Only one.")) as url:
        turns = await ask_all({"streamed": url}, PROMPTS[:1])
    assert first_audio_ms(turns["streamed"][0]) is None


async def test_a_reply_is_left_as_soon_as_it_can_be_heard() -> None:
    endless = Behaviour(pieces=40, gap_before_last_s=1.0)
    with realtime_double(endless) as url:
        turns = await ask_all({"streamed": url}, PROMPTS[:1])
    assert "response.done" not in turns["streamed"][0].types()
    assert first_audio_ms(turns["streamed"][0]) is not None


@pytest.mark.parametrize("missing", ["streamed", "sequential"])
def test_without_both_there_is_no_ratio(missing: str) -> None:
    rows = {"streamed": summarise([100.0]), "sequential": summarise([200.0])}
    assert first_audio_ratio(rows) == 2.0
    assert first_audio_ratio({**rows, missing: None}) is None
