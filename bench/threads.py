"""`sori bench threads`: what another share of the CPU threads would do to a conversation.

One server for each budget; people speak to them in alternation, so that drift of the machine hits
all alike. A budget names the stages that differ from the configuration: `thinker=2` or
`transcriber=1,talker=2`; `default` changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.client import APPEND_MS, Gone, Late
from bench.clips import DEFAULT_FOLDER, ClipsError, load_clips
from bench.machine import describe_machine
from bench.report import print_report, render_table, summaries_json
from bench.server import ServerError, end_on_sigterm, start_server
from bench.turn import Turn
from bench.voice import evaluate, run
from pipeline.config import STAGE_NAMES

DEFAULT = "default"
BUDGETS = (DEFAULT, "transcriber=1", "thinker=2", "talker=2,voicebox=2")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if a reply failed, or nothing could run."""
    arguments = build_parser().parse_args(argv)
    end_on_sigterm()
    try:
        turns = measure(arguments)
    except (ClipsError, ServerError, OSError, yaml.YAMLError, Late, Gone) as error:
        print(f"sori bench threads: {error}", file=sys.stderr)
        return 1
    results = {budget: evaluate(said) for budget, said in turns.items()}
    rows = {budget: result.rows["voice_to_voice"] for budget, result in results.items()}
    failed = sum(len(result.failures) for result in results.values())
    print_report(
        [
            f"voice-to-voice, {arguments.sessions} at once, {arguments.rounds} rounds of "
            f"{arguments.turns} turns",
            render_table(rows, "ms"),
            "underruns: " + ", ".join(f"{name} {one.underruns}" for name, one in results.items()),
            f"failed: {failed}",
        ],
        {
            "bench": "threads",
            "machine": describe_machine(),
            "settings": {
                "sessions": arguments.sessions,
                "rounds": arguments.rounds,
                "turns": arguments.turns,
            },
            "voice_to_voice_ms": summaries_json(rows),
            "underruns": {name: result.underruns for name, result in results.items()},
            "failed": failed,
        },
    )
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench threads`."""
    parser = argparse.ArgumentParser(prog="sori bench threads", description=__doc__)
    parser.add_argument("budgets", nargs="*", type=_checked, help=f"default: {' '.join(BUDGETS)}")
    parser.add_argument("--config", type=Path, help="what all servers have in common")
    parser.add_argument("--sessions", type=int, default=2, help="people who talk at once")
    parser.add_argument("--rounds", type=int, default=4, help="how often each server has its turn")
    parser.add_argument("--turns", type=int, default=4, help="turns of each person in a round")
    parser.add_argument("--clips", type=Path, default=DEFAULT_FOLDER, help="folder of recordings")
    return parser


def _checked(budget: str) -> str:
    try:
        threads_of(budget)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return budget


def threads_of(budget: str) -> dict[str, int]:
    """Threads by stage. Raises ValueError for what names no stage or no count."""
    if budget == DEFAULT:
        return {}
    threads = {}
    for part in budget.split(","):
        stage, _, count = part.partition("=")
        if stage not in STAGE_NAMES or not count.isdigit() or not int(count):
            raise ValueError(f"{part!r} is not STAGE=THREADS; stages: {', '.join(STAGE_NAMES)}")
        threads[stage] = int(count)
    return threads


def with_budget(config: dict[str, Any], budget: str) -> dict[str, Any]:
    """The configuration with this budget; the given one is left as it is."""
    stages = {name: dict(stage) for name, stage in config.get("stages", {}).items()}
    for stage, count in threads_of(budget).items():
        stages.setdefault(stage, {})["threads"] = count
    return {**config, "stages": stages}


def measure(arguments: argparse.Namespace) -> dict[str, list[Turn]]:
    """All turns by budget."""
    clips = load_clips(arguments.clips)
    text = arguments.config.read_text(encoding="utf-8") if arguments.config else ""
    config = dict(yaml.safe_load(text) or {})
    budgets: Sequence[str] = arguments.budgets or BUDGETS
    turns: dict[str, list[Turn]] = {budget: [] for budget in budgets}
    print(f"starting {len(turns)} servers …", file=sys.stderr)
    with contextlib.ExitStack() as servers:
        urls = {
            budget: servers.enter_context(start_server(with_budget(config, budget))).realtime_url
            for budget in turns
        }
        for number in range(arguments.rounds):
            begin = number * arguments.turns % len(clips)
            talk = argparse.Namespace(
                sessions=arguments.sessions,
                turns=arguments.turns,
                warmup_turns=0,
                append_ms=APPEND_MS,
                format="pcm",
                server_vad=False,
                api_key=None,
                deadline_s=120.0,
            )
            for budget, url in urls.items():
                print(f" {budget}", file=sys.stderr)
                turns[budget] += asyncio.run(run(url, [*clips[begin:], *clips[:begin]], talk))
    return turns
