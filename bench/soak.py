"""`sori bench soak`: what is left of thousands of turns that went wrong.

Restless clients cancel, barge in, truncate, send nonsense and leave in mid-reply, over the socket
and over HTTP, while each worker is killed once. After every tenth of the turns all of them leave,
and the server is looked at while it rests. Memory, descriptors, threads and tasks are compared with
the first such look; a worker that was killed, with the second look at its successor. After that,
clients leave one at a time in mid-reply, and it is measured how long their work goes on.

A heap grows for its first thousands of turns, as its fragments find their places; what leaks grows
to the end. So memory is compared with the middle of the turns as well, and that decides. The exit
code is 1 if something hung, went on, was left behind, or grew by more than `--max-growth`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from bench.clips import load_clips
from bench.crowd import APPEND_MS, RATE_HZ, SILENCE, append_of
from bench.footprint import Footprint, compare, read_footprint, wait_for_rest, workers
from bench.machine import describe_machine, usable_cores
from bench.report import print_report, render_table, summaries_json, summarise
from bench.restless import TONE, Restless, Tally
from bench.server import Server, end_on_sigterm, start_server
from bench.wire import PcmWire
from pipeline.config import STAGE_NAMES

ROUNDS = 10
POOL_THREADS = min(32, usable_cores() + 4)
"""What asyncio's own pool of threads may still grow to after the first look."""

REST_S = 5.0
READY_S = 30.0
SCRIPT: dict[str, dict[str, Any]] = {
    "thinker": {"text": "One two three four five six seven eight nine ten.", "token_ms": 2},
    "talker": {"char_ms": 40},
    "voicebox": {"step_ms": 1},
    "transcriber": {"delay_ms": 5},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code."""
    arguments = build_parser().parse_args(argv)
    if arguments.quick:
        # Too short to tell a leak from warming up.
        arguments.turns, arguments.disconnects, arguments.max_growth = 600, 30, 30.0
    end_on_sigterm()
    config = None if arguments.embedded else {"stages": scripted_stages()}
    with start_server({**(config or {}), "log_level": "error"}) as server:
        soak = Soak(server, arguments)
        asyncio.run(soak.run())
        exit_code = server.stop()
    return soak.report(exit_code)


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench soak`."""
    parser = argparse.ArgumentParser(
        prog="sori bench soak", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--disconnects", type=int, default=200, help="one at a time, afterwards")
    parser.add_argument("--abreast", type=int, default=8, help="clients at once")
    parser.add_argument("--no-kills", action="store_true", help="leave the workers alive")
    parser.add_argument("--embedded", action="store_true", help="the models, instead of scripts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--max-growth", type=float, default=2.0, help="percent of memory in the second half"
    )
    parser.add_argument("--quick", action="store_true", help="600 turns and 30 disconnects")
    return parser


def scripted_stages() -> dict[str, Any]:
    """Stages without models, each a process."""
    return {
        name: {"kind": f"scripted_{name}", "options": SCRIPT.get(name, {})} for name in STAGE_NAMES
    }


def spoken() -> tuple[str, ...]:
    """Appends of a recording and of silence after it: a tone is no speech to the models."""
    samples = PcmWire().from_clip(load_clips()[0].samples)
    size = RATE_HZ * APPEND_MS // 1000
    pieces = (samples[first : first + size] for first in range(0, len(samples), size))
    return (*map(append_of, pieces), *[SILENCE] * 15)


class Soak:
    """One server, its turns, and what was seen of it."""

    def __init__(self, server: Server, arguments: argparse.Namespace) -> None:
        self._server = server
        self._arguments = arguments
        self._chance = random.Random(arguments.seed)
        self._patience_s = 120.0 if arguments.embedded else 20.0
        self._speech = spoken() if arguments.embedded else TONE
        self.tally = Tally()
        self.looks: list[Footprint] = []
        self.rest_s: list[float] = []
        self.left: list[Mapping[str, float]] = []
        self.killed: list[str] = []
        self._began_s = time.monotonic()

    async def run(self) -> None:
        """All turns, then the disconnects. Raises OSError when the server dies."""
        victims = [] if self._arguments.no_kills else list(STAGE_NAMES)
        limits = httpx.Limits(max_keepalive_connections=0)
        url = self._server.url
        async with httpx.AsyncClient(base_url=url, timeout=None, limits=limits) as http:
            for number in range(ROUNDS):
                # The last ones are left to grow old.
                victim = victims.pop(0) if victims and number > 0 else None
                await self._round(http, self._arguments.turns // ROUNDS, victim)
                print(f"  {self.tally.turns} turns, {self._seconds:.0f} s", file=sys.stderr)
            for _ in range(self._arguments.disconnects):
                await self._disconnect(http)
        await self._look()

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began_s

    async def _round(self, http: httpx.AsyncClient, turns: int, victim: str | None) -> None:
        until = self.tally.turns + turns
        half = until - turns // 2

        async def visit() -> None:
            client = self._client(http)
            while self.tally.turns < until:
                await client.come_and_go()

        async def kill(stage: str) -> None:
            while self.tally.turns < half:  # noqa: ASYNC110 - a bench may look
                await asyncio.sleep(0.01)
            os.kill(workers(self._server)[stage], signal.SIGKILL)
            self.killed.append(stage)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._arguments.abreast):
                tasks.create_task(visit())
            if victim is not None:
                tasks.create_task(kill(victim))
        await asyncio.to_thread(self._server.wait_ready, READY_S)
        await self._rest()
        await self._look()

    async def _disconnect(self, http: httpx.AsyncClient) -> None:
        """Begin a reply, be gone, and see how long its work goes on."""
        client = self._client(http)
        async with asyncio.timeout(self._patience_s) as patience:
            if self._chance.random() < 0.3:
                await client.request(patience)
            else:
                await client.leave(patience)
        await self._rest()

    async def _rest(self) -> None:
        waited_s, left = await wait_for_rest(self._server, REST_S)
        self.rest_s.append(waited_s)
        if left:
            self.left.append(left)

    async def _look(self) -> None:
        # Sockets of clients that have just left, the last scrape's among them, may not be closed.
        until_s = time.monotonic() + REST_S
        first = self.looks[0].counts() if self.looks else None
        while True:
            look = await asyncio.to_thread(read_footprint, self._server)
            more = first and look.counts()["descriptors"] > first["descriptors"]
            if not more or time.monotonic() > until_s:
                break
        self.looks.append(look)

    def _client(self, http: httpx.AsyncClient) -> Restless:
        return Restless(
            self._server.realtime_url,
            http,
            self._chance,
            self.tally,
            self._patience_s,
            self._speech,
        )

    # -- the report ------------------------------------------------------------------------------

    def report(self, exit_code: int) -> int:
        """Print it. Returns the exit code of the benchmark."""
        growth = compare(self.looks)
        first, last = self.looks[0].counts(), self.looks[-1].counts()
        limits = {**first, "threads": first["threads"] + POOL_THREADS}
        more = {name: last[name] - first[name] for name in last if last[name] > limits[name]}
        largest = max(one.late_percent for one in growth.values())
        rests = summarise(seconds * 1000 for seconds in self.rest_s)
        failed = bool(self.tally.hung or self.left or more or exit_code)
        failed |= largest > self._arguments.max_growth
        lines = [
            f"{self.tally.turns} turns in {self._seconds:.0f} s: {dict(self.tally.acts)}",
            f"ends: {dict(self.tally.ends)}; killed: {', '.join(self.killed) or 'none'}",
            f"hung: {self.tally.hung or 'nothing'}; going on at rest: {self.left or 'nothing'}",
            f"{'':14} {'first KiB':>10} {'last KiB':>10} {'growth':>8} {'late':>8}  "
            "descriptors, threads",
            *(
                f"{name:14} {one.first.rss_kib:>10} {one.last.rss_kib:>10} {one.percent:>7.2f}%"
                f" {one.late_percent:>7.2f}%  {one.first.descriptors} -> {one.last.descriptors},"
                f" {one.first.threads} -> {one.last.threads}"
                for name, one in growth.items()
            ),
            f"counts at rest, first: {first}; last: {last}",
            render_table({"until nothing goes on": rests}, "ms after the last client has left"),
        ]
        document = {
            "bench": "soak",
            "machine": describe_machine(),
            "settings": {
                "turns": self._arguments.turns,
                "disconnects": self._arguments.disconnects,
                "embedded": self._arguments.embedded,
            },
            "turns": self.tally.turns,
            "ends": dict(self.tally.ends),
            "killed": self.killed,
            "hung": self.tally.hung,
            "left": self.left,
            "more": more,
            "rss_kib": {
                name: [look.processes[name].rss_kib for look in self.looks] for name in growth
            },
            "growth_percent": {name: round(one.percent, 2) for name, one in growth.items()},
            "late_growth_percent": {
                name: round(one.late_percent, 2) for name, one in growth.items()
            },
            "rest_ms": {**summaries_json({"": rests})[""], "max": round(max(self.rest_s) * 1000)},
            "exit_code": exit_code,
        }
        print_report(lines, document)
        return 1 if failed else 0
