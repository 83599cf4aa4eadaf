"""`sori bench restarts`: is the first turn after a start as quick as any other?

Starts the server again and again, waits until it says that it is ready, and speaks a few turns,
each time beginning with another recording. The first turns are compared with all later ones: what
warm-up leaves cold shows.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.client import open_client
from bench.clips import DEFAULT_FOLDER, Clip, load_clips
from bench.machine import describe_machine
from bench.report import print_report, render_table, summaries_json, summarise
from bench.server import end_on_sigterm, start_server
from bench.turn import milliseconds
from bench.wire import WIRES


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit code is 1 if a turn had no answer."""
    arguments = build_parser().parse_args(argv)
    clips = load_clips(arguments.clips)
    end_on_sigterm()
    first: list[float | None] = []
    steady: list[float | None] = []
    for start in range(arguments.restarts):
        with start_server(arguments.config) as server:
            order = [clips[(start + turn) % len(clips)] for turn in range(arguments.turns)]
            delays = asyncio.run(speak(server.realtime_url, order))
        told = ", ".join("no answer" if delay is None else f"{delay:.0f}" for delay in delays)
        print(f"  start {start + 1}: {told} ms", file=sys.stderr)
        first.append(delays[0])
        steady += delays[1:]
    rows = {"first_turn": summarise(first), "steady_turn": summarise(steady)}
    ratio = None
    if rows["first_turn"] and rows["steady_turn"]:
        ratio = rows["first_turn"].p50 / rows["steady_turn"].p50
    missing = sum(delay is None for delay in (*first, *steady))
    lines = [
        f"{arguments.restarts} starts, {arguments.turns} turns each",
        render_table(rows, "ms, voice to voice"),
        f"median first turn / median steady turn: {ratio:.2f}" if ratio else "nothing measured",
    ]
    print_report(
        lines,
        {
            "bench": "restarts",
            "machine": describe_machine(),
            "settings": {"restarts": arguments.restarts, "turns_each": arguments.turns},
            "failed": missing,
            "ms": summaries_json(rows),
            "ratio": ratio and round(ratio, 3),
        },
    )
    return 1 if missing else 0


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="sori bench restarts", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--config", type=Path, help="configuration of the server")
    parser.add_argument("--restarts", type=int, default=5, help="starts of the server")
    parser.add_argument("--turns", type=int, default=6, help="turns after each start")
    parser.add_argument("--clips", type=Path, default=DEFAULT_FOLDER, help="folder of recordings")
    return parser


async def speak(url: str, clips: Sequence[Clip]) -> list[float | None]:
    """One session's turns: milliseconds from the end of the voice to the answer's first sound."""
    delays = []
    async with open_client(url, WIRES["pcm"]()) as client:
        for clip in clips:
            reply = (turn := await client.speak(clip)).reply
            delays.append(milliseconds(turn.asked_at_s, reply.audible_at_s) if reply else None)
    return delays
