"""`sori bench overhead`: a crowd's turns are counted and timed, and the echo beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from bench.crowd import run_crowd
from bench.overhead import bare_server, config, main
from bench.scrape import loop_busy_ms, scrape
from bench.server import Server, start_server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with start_server(config(4)) as started:
        yield started


@pytest.mark.parametrize("detects", [False, True])
async def test_every_turn_of_a_crowd_is_answered(server: Server, detects: bool) -> None:
    before = scrape(server)
    answers = await run_crowd(server.realtime_url, 4, 4.5, detects=detects, every_s=2.0)
    after = scrape(server)
    assert answers.errors == []
    assert answers.turns >= 4
    assert len(answers.first_audio_ms) == answers.turns
    assert all(0 < ms < 2000 for ms in answers.first_audio_ms)
    assert answers.deltas >= 5 * answers.turns
    assert 0 < loop_busy_ms(before, after, 0.5) <= loop_busy_ms(before, after, 1.0)


async def test_the_echo_is_a_server_of_the_same_frames() -> None:
    with bare_server() as (url, _):
        answers = await run_crowd(url, 2, 4.5, detects=False, every_s=2.0)
    assert answers.errors == []
    assert len(answers.first_audio_ms) == answers.turns >= 2
    assert answers.deltas == 10 * answers.turns


def test_the_last_line_is_json(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--sessions", "1", "--seconds", "5", "--modes", "echo", "committed"]
    assert main(arguments) == 0
    *table, last = capfd.readouterr().out.splitlines()
    rows = json.loads(last)["rows"]
    assert [row["mode"] for row in rows] == ["echo", "committed"]
    assert all(row["turns"] == 1 and row["unanswered"] == 0 for row in rows)
    assert len(table) == 3
    assert rows[1]["loop_p99_ms"] > 0
