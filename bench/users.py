"""`sori bench users`: how many turns a minute one server makes for many users at once.

Each user asks a question in writing, listens to the whole spoken answer, and asks the next. `in
turn` is the same server and as many users, of whom one at a time is answered: what a server makes
that runs nothing beside each other.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.cascade import PROMPTS
from bench.client import Gone, Late, open_client
from bench.machine import describe_machine
from bench.report import print_report, summarise
from bench.server import ServerError, end_on_sigterm, start_server
from bench.turn import Turn, milliseconds

CROWDS = (1, 16, 64)
MAX_TOKENS = 48
"""Answers of some ten seconds, so that many end within a measurement."""


@dataclass(frozen=True, slots=True)
class Row:
    """One crowd. first_audio: of a question, in ms. gaps: answers in which the sound broke off."""

    users: int
    in_turn: bool
    turns_a_minute: float
    first_audio_p50_ms: float | None
    first_audio_p95_ms: float | None
    gaps: int
    failed: int


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if an answer failed, or nothing could run."""
    arguments = build_parser().parse_args(argv)
    end_on_sigterm()
    rows = []
    try:
        with start_server(arguments.config) as server:
            crowds = [(1, False), (max(arguments.users), True)]
            crowds += [(users, False) for users in arguments.users if users > 1]
            for users, in_turn in crowds:
                print(f"  {users} users{', in turn' if in_turn else ''}", file=sys.stderr)
                crowd = run_crowd(server.realtime_url, users, arguments.seconds, in_turn=in_turn)
                rows.append(judge(asyncio.run(crowd), users, arguments.seconds, in_turn=in_turn))
    except (ServerError, OSError) as error:
        print(f"sori bench users: {error}", file=sys.stderr)
        return 1
    document = {
        "bench": "users",
        "machine": describe_machine(),
        "rows": [asdict(row) for row in rows],
    }
    print_report(table(rows), document)
    return 1 if any(row.failed for row in rows) else 0


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench users`."""
    parser = argparse.ArgumentParser(prog="sori bench users", description=__doc__)
    parser.add_argument("--config", type=Path, help="the server's configuration")
    parser.add_argument("--users", type=int, nargs="+", default=list(CROWDS))
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    return parser


async def run_crowd(url: str, users: int, seconds: float, *, in_turn: bool) -> list[Turn]:
    """All turns that were begun in this time; those that had not ended are marked as late."""
    turns: list[Turn] = []
    turn_lock = asyncio.Lock() if in_turn else None
    until_s = time.monotonic() + seconds
    async with asyncio.TaskGroup() as tasks:
        for number in range(users):
            tasks.create_task(_use(url, number, until_s, turn_lock, turns))
    return turns


async def _use(
    url: str, number: int, until_s: float, turn_lock: asyncio.Lock | None, turns: list[Turn]
) -> None:
    asked = number
    while time.monotonic() < until_s:
        async with turn_lock or contextlib.nullcontext():
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return
            try:
                async with open_client(url) as client:
                    limit = {"max_output_tokens": MAX_TOKENS}
                    prompt = PROMPTS[asked % len(PROMPTS)]
                    turns.append(await client.ask(prompt, response=limit, deadline_s=left_s))
            except (Late, Gone) as error:
                print(f"    {error}", file=sys.stderr)
                return
        asked += 1


def judge(turns: Sequence[Turn], users: int, seconds: float, *, in_turn: bool) -> Row:
    """A turn counts if it has ended in time; one that was cut off by the end of the measurement is
    no failure."""
    ended = [turn for turn in turns if turn.failure is None]
    replies = [turn.reply for turn in ended if turn.reply is not None]
    first = summarise(
        milliseconds(turn.asked_at_s, turn.reply.first_audio_at_s)
        for turn in turns
        if turn.reply is not None
    )
    return Row(
        users=users,
        in_turn=in_turn,
        turns_a_minute=round(len(ended) / seconds * 60, 1),
        first_audio_p50_ms=round(first.p50) if first else None,
        first_audio_p95_ms=round(first.p95) if first else None,
        gaps=sum(bool(reply.gaps) for reply in replies),
        failed=sum(reply.status == "failed" for reply in replies),
    )


def table(rows: Sequence[Row]) -> list[str]:
    """One line a row."""
    lines = [f"{'users':>5}  {'':8}  {'turns/min':>9}  {'first audio p50':>15}  {'p95':>9}  gaps"]
    for row in rows:
        how = "in turn" if row.in_turn else ""
        p50, p95 = row.first_audio_p50_ms, row.first_audio_p95_ms
        lines.append(
            f"{row.users:>5}  {how:8}  {row.turns_a_minute:>9}  "
            f"{'-' if p50 is None else f'{p50:.0f} ms':>15}  "
            f"{'-' if p95 is None else f'{p95:.0f} ms':>9}  {row.gaps:>4}"
        )
    return lines
