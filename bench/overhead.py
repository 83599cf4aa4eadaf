"""`sori bench overhead`: what the server itself costs, with stages that take no time.

A crowd appends silence in pieces of 100 ms. In `committed` its members end their turns themselves,
in `vad` the server does. First audio is from the end of the turn (the frame that ends it is sent)
to the first delta; the script of the stages takes none of it. `echo` is a bare FastAPI server that
takes and sends the same frames, in the same run: what uvicorn, the sockets and this load generator
cost by themselves. Loop: turns of Sori's event loop. CPU: shares of one core.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.crowd import Answers, run_crowd
from bench.machine import describe_machine
from bench.report import print_report
from bench.scrape import cpu_s, loop_busy_ms, scrape
from bench.server import Server, end_on_sigterm, free_port, start_server

CROWDS = (1, 16, 64, 128, 256)
MODES = ("echo", "committed", "vad")
SECONDS = 20.0
TEXT, CHAR_MS = "Hello.", 333  # two seconds of speech


@dataclass(frozen=True, slots=True)
class Row:
    """One crowd in one mode. late: replies whose audio came too late for their listener."""

    mode: str
    sessions: int
    turns: int
    first_audio_p50_ms: float
    first_audio_p99_ms: float
    late: int
    unanswered: int
    errors: int
    loop_p99_ms: float | None
    server_cpu: float
    generator_cpu: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code."""
    arguments = build_parser().parse_args(argv)
    end_on_sigterm()
    rows = []
    with (
        bare_server() as (echo_url, echo_pid),
        start_server(config(max(arguments.sessions), arguments.placement)) as sori,
    ):
        for sessions in arguments.sessions:
            for mode in arguments.modes:
                print(f"  {mode}, {sessions} sessions", file=sys.stderr)
                target = None if mode == "echo" else sori
                url = target.realtime_url if target else echo_url
                pid = target.process.pid if target else echo_pid
                rows.append(measure(mode, url, pid, target, sessions, arguments.seconds))
    document = {
        "bench": "overhead",
        "machine": describe_machine(),
        "placement": arguments.placement,
        "rows": [asdict(r) for r in rows],
    }
    print_report(table(rows), document)
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench overhead`."""
    parser = argparse.ArgumentParser(prog="sori bench overhead", description=__doc__)
    parser.add_argument("--sessions", type=int, nargs="+", default=list(CROWDS))
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement")
    parser.add_argument(
        "--placement",
        choices=("process", "thread"),
        default="process",
        help="of the stages; as threads of the server they cost no switch between processes",
    )
    return parser


def config(sessions: int, placement: str = "process") -> dict[str, Any]:
    """A server without models, with room for the crowd. placement: of all its stages."""
    options: dict[str, dict[str, Any]] = {
        "thinker": {"text": TEXT},
        "talker": {"char_ms": CHAR_MS},
    }
    names = ("ears", "turn_detector", "transcriber", "thinker", "talker", "voicebox")
    stages = {
        name: {
            "kind": f"scripted_{name}",
            "placement": placement,
            "options": options.get(name, {}),
        }
        for name in names
    }
    return {"stages": stages, "max_sessions": sessions + 8, "max_requests": 2 * sessions + 64}


@contextlib.contextmanager
def bare_server() -> Iterator[tuple[str, int]]:
    """The url and process of the echo."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.echo", str(port)])
    try:
        server = Server(process, port, log_path=None)  # type: ignore[arg-type]  # it has no log
        deadline_s = time.monotonic() + 20
        while time.monotonic() < deadline_s:
            with contextlib.suppress(OSError):
                server.get("/")
                break
            time.sleep(0.05)
        yield server.realtime_url, process.pid
    finally:
        process.kill()
        process.wait()


def measure(
    mode: str, url: str, pid: int, sori: Server | None, sessions: int, seconds: float
) -> Row:
    """One crowd."""
    before = scrape(sori) if sori else {}
    begun_s, server_s, own_s = time.monotonic(), cpu_s(pid), time.process_time()
    answers: Answers = asyncio.run(run_crowd(url, sessions, seconds, detects=mode == "vad"))
    wall_s = time.monotonic() - begun_s
    first = answers.first_audio_ms or [float("nan")]
    p50, p99 = np.percentile(first, [50, 99])
    for error in answers.errors[:3]:
        print(f"    {error}", file=sys.stderr)
    return Row(
        mode=mode,
        sessions=sessions,
        turns=answers.turns,
        first_audio_p50_ms=round(float(p50), 2),
        first_audio_p99_ms=round(float(p99), 2),
        late=len(answers.late_ms),
        unanswered=answers.turns - len(answers.first_audio_ms),
        errors=len(answers.errors),
        loop_p99_ms=loop_busy_ms(before, scrape(sori), 0.99) if sori else None,
        server_cpu=round((cpu_s(pid) - server_s) / wall_s, 3),
        generator_cpu=round((time.process_time() - own_s) / wall_s, 3),
    )


def table(rows: Sequence[Row]) -> list[str]:
    """One line a row."""
    lines = [
        f"{'sessions':>8}  {'':9}  {'turns':>5}  {'first audio p50':>15}  {'p99':>8}  {'late':>4}  "
        f"{'unanswered':>10}  {'loop p99':>8}  {'server':>6}  {'generator':>9}"
    ]
    for row in rows:
        loop = "" if row.loop_p99_ms is None else f"{row.loop_p99_ms:g} ms"
        lines.append(
            f"{row.sessions:>8}  {row.mode:9}  {row.turns:>5}  {row.first_audio_p50_ms:>12.2f} ms  "
            f"{row.first_audio_p99_ms:>5.1f} ms  {row.late:>4}  {row.unanswered:>10}  {loop:>8}  "
            f"{row.server_cpu:>6.0%}  {row.generator_cpu:>9.0%}"
        )
    return lines
