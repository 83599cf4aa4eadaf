"""`sori bench cascade`: what it gains that the stages overlap.

The same prompts go to two servers that differ in one key, `cascade`: on the one each stage works on
what the one before has made so far, on the other it waits until that one has finished. With
`--compare handoff` the key is another: frames and samples go through shared memory, or are pickled.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.client import Gone, Late, open_client
from bench.machine import describe_machine
from bench.report import Summary, print_report, render_table, summaries_json, summarise
from bench.server import ServerError, end_on_sigterm, start_server
from bench.turn import Received, Turn, milliseconds, sentences

COMPARED = {"cascade": ("streamed", "sequential"), "handoff": ("pool", "pickle")}
"""For each key, its two values; the first is the default."""

MIN_SENTENCES = 2

PROMPTS = (
    "Tell me in three sentences why the sky is blue.",
    "Explain in three sentences how bread is made.",
    "What is a lighthouse for?",
    "Please explain why people need to sleep.",
    "How does a bicycle work?",
    "What should I see in London?",
    "Explain how rain is made.",
)
"""Questions that the embedded model answers in several sentences."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if a reply failed, or nothing could run."""
    arguments = build_parser().parse_args(argv)
    try:
        turns = measure(arguments)
    except (ServerError, OSError, yaml.YAMLError, Late, Gone) as error:
        print(f"sori bench cascade: {error}", file=sys.stderr)
        return 1
    modes = COMPARED[arguments.compare]
    rows = {mode: summarise(first_audio_ms(turn) for turn in turns[mode]) for mode in modes}
    failures = [failure for mode in modes for turn in turns[mode] if (failure := _failure(turn))]
    ratio = first_audio_ratio(rows, modes)
    print_report(
        [
            f"first audio after response.create, replies of {MIN_SENTENCES} sentences or more",
            render_table(rows, "ms"),
            "failed: " + ("; ".join(failures) if failures else "none"),
            f"{modes[1]} / {modes[0]}: " + (f"{ratio:.2f} x" if ratio else "not measured"),
        ],
        {
            "bench": "cascade",
            "machine": describe_machine(),
            "settings": {
                "rounds": arguments.rounds,
                "prompts": arguments.prompts,
                "compare": arguments.compare,
            },
            "first_audio_ms": summaries_json(rows),
            "first_audio_ratio": round(ratio, 3) if ratio else None,
            "failed": len(failures),
        },
    )
    return 1 if failures or not ratio else 0


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench cascade`."""
    parser = argparse.ArgumentParser(prog="sori bench cascade", description=__doc__)
    parser.add_argument("--config", type=Path, help="configuration of both servers")
    parser.add_argument("--compare", choices=COMPARED, default="cascade")
    parser.add_argument("--rounds", type=int, default=2, help="how often each prompt is asked")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), help="how many prompts")
    return parser


def measure(arguments: argparse.Namespace) -> dict[str, list[Turn]]:
    """Ask both servers every prompt, in alternation, so that drift of the machine hits both."""
    config = _read(arguments.config)
    end_on_sigterm()
    print("starting two servers …", file=sys.stderr)
    one, other = COMPARED[arguments.compare]
    with (
        start_server({**config, arguments.compare: one}) as first,
        start_server({**config, arguments.compare: other}) as second,
    ):
        urls = {one: first.realtime_url, other: second.realtime_url}
        prompts = PROMPTS[: arguments.prompts] * arguments.rounds
        return asyncio.run(ask_all(urls, prompts))


async def ask_all(urls: dict[str, str], prompts: Sequence[str]) -> dict[str, list[Turn]]:
    """Turns by mode. Each in a session of its own, so that no reply depends on an earlier one."""
    turns: dict[str, list[Turn]] = {mode: [] for mode in urls}
    for prompt in prompts:
        for mode, url in urls.items():
            async with open_client(url) as client:
                # The rest of the reply would be listened to in real time; it tells nothing more.
                turn = await client.ask(prompt, until=is_heard)
            turns[mode].append(turn)
            delay = first_audio_ms(turn)
            told = _failure(turn) or (f"{delay:6.0f} ms" if delay else "too short a reply")
            print(f"  {mode:10} {told}  {prompt}", file=sys.stderr)
    return turns


def first_audio_ms(turn: Turn) -> float | None:
    """None for a reply too short to have anything to overlap."""
    reply = turn.reply
    if reply is None or sentences(reply.transcript) < MIN_SENTENCES:
        return None
    return milliseconds(turn.asked_at_s, reply.first_audio_at_s)


def is_heard(events: list[Received]) -> bool:
    """Sound has come, and enough text to know that the reply is long; or the reply is over."""
    text = ""
    sound = False
    for got in events:
        sound |= got.type == "response.output_audio.delta"
        if got.type == "response.output_audio_transcript.delta":
            text += got.event["delta"]
        if got.type == "response.done":
            return True
    return sound and sentences(text) >= MIN_SENTENCES


def first_audio_ratio(
    rows: dict[str, Summary | None], modes: tuple[str, str] = COMPARED["cascade"]
) -> float | None:
    """Median of the second by median of the first."""
    one, other = rows[modes[0]], rows[modes[1]]
    return other.p50 / one.p50 if one and other else None


def _failure(turn: Turn) -> str | None:
    if turn.failure:
        return turn.failure
    return turn.reply.failure if turn.reply else "no reply"


def _read(path: Path | None) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path else {}
