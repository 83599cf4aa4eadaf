"""`sori bench pauses`: people who hesitate in mid-sentence; who is cut off, and at what price?

Recordings get a silence of 300 to 700 ms between two words. A speaker is cut off when any reply can
be heard before the end of the sentence; a turn that was ended and opened again before that counts
as understood. The cost is the voice-to-voice time of the same recordings without a pause.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.chart import Point, draw_points, write_chart
from bench.client import Gone, Late, open_client
from bench.clips import DEFAULT_FOLDER, Clip, ClipsError, load_clips
from bench.machine import describe_machine
from bench.report import Summary, print_report, summarise
from bench.server import ServerError, end_on_sigterm, start_server
from bench.splices import Splice, splices
from bench.turn import Received, Turn, milliseconds, read_turn
from pipeline.config import default_home

DEADLINE_S = 12.0
LISTEN_S = 0.2
"""Long enough for the first audio delta to be followed by an audible one."""

EAGERNESSES = ("low", "auto", "high")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if nothing could run."""
    arguments = build_parser().parse_args(argv)
    try:
        clips = load_clips(arguments.clips)
        cases = _choose(splices(clips, default_home()), arguments.cases)
        end_on_sigterm()
        print("starting a server …", file=sys.stderr)
        with start_server(arguments.config) as server:
            results = {
                eagerness: asyncio.run(measure(server.realtime_url, eagerness, cases, clips))
                for eagerness in arguments.eagerness
            }
    except (ClipsError, ServerError, OSError, Late, Gone) as error:
        print(f"sori bench pauses: {error}", file=sys.stderr)
        return 1
    print_report(
        [
            f"{len(cases)} pauses of 300 to 700 ms in unfinished sentences",
            *(result.line() for result in results.values()),
        ],
        {
            "bench": "pauses",
            "machine": describe_machine(),
            "cases": len(cases),
            "eagerness": {name: result.to_json() for name, result in results.items()},
        },
    )
    if arguments.chart is not None:
        points = [
            Point(name, result.wait.p50, result.share)
            for name, result in results.items()
            if result.wait is not None
        ]
        title = "Hesitations that are waited for, and how soon a finished sentence is answered"
        write_chart(arguments.chart, draw_points(title, "p50 voice-to-voice", "not cut", points))
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench pauses`."""
    parser = argparse.ArgumentParser(prog="sori bench pauses", description=__doc__)
    parser.add_argument("--config", type=Path, help="configuration of the server")
    parser.add_argument("--cases", type=int, default=42, help="pauses for each eagerness")
    parser.add_argument("--chart", type=Path, help="draw the trade into this SVG file")
    parser.add_argument("--clips", type=Path, default=DEFAULT_FOLDER, help="folder of recordings")
    parser.add_argument(
        "--eagerness", nargs="+", choices=EAGERNESSES, default=["auto"], help="of semantic_vad"
    )
    return parser


def _choose(cases: Sequence[Splice], count: int) -> list[Splice]:
    """As many as wanted, spread over all clips."""
    picked = np.unique(np.linspace(0, len(cases) - 1, min(count, len(cases))).astype(int))
    return [cases[index] for index in picked]


class Result:
    """What one eagerness does. cut: the pauses at which somebody was cut off."""

    def __init__(self, eagerness: str, cut: list[Splice], cases: int, wait: Summary | None) -> None:
        self.eagerness = eagerness
        self.cut = cut
        self.cases = cases
        self.wait = wait

    @property
    def share(self) -> float:
        """Of the pauses that nobody was cut off in."""
        return 1 - len(self.cut) / self.cases

    def line(self) -> str:
        """For people."""
        wait = f"{self.wait.p50:.0f} / {self.wait.p95:.0f} ms" if self.wait else "-"
        return f"{self.eagerness:6} not cut {self.share:6.1%}   voice-to-voice p50 / p95 {wait}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "not_cut": round(self.share, 4),
            "cut_after": [[case.after, case.pause_ms] for case in self.cut],
            "voice_to_voice_ms": self.wait.to_json() if self.wait else None,
        }


async def measure(
    url: str, eagerness: str, cases: Sequence[Splice], clips: Sequence[Clip]
) -> Result:
    """All cases, each in a session of its own; then the clips without pauses."""
    cut: list[Splice] = []
    for case in cases:
        turn = await _say(url, eagerness, case.clip)
        if turn.cut_in:
            cut.append(case)
        told = "CUT" if turn.cut_in else "ok "
        print(f"  {eagerness:5} {told} {case.pause_ms} ms after {case.after!r}", file=sys.stderr)
    waits = []
    for clip in [*clips, *clips]:
        turn = await _say(url, eagerness, clip)
        waits.append(milliseconds(turn.asked_at_s, turn.reply.audible_at_s) if turn.reply else None)
    return Result(eagerness, cut, len(cases), summarise(waits))


async def _say(url: str, eagerness: str, clip: Clip) -> Turn:
    detection = {"type": "semantic_vad", "eagerness": eagerness}
    session = {"audio": {"input": {"turn_detection": detection}}}
    async with open_client(url, session=session) as client:
        client.switch_on()
        said_at_s = client.queue_speech(client.wire.from_clip(clip.samples))
        asked_at_s = said_at_s + clip.speech_end_ms / 1000

        def answered(events: list[Received]) -> bool:
            return any(got.samples is not None and got.at_s > asked_at_s for got in events)

        # The rest of the reply would be listened to in real time; it tells nothing more. After a
        # cut, what is left of the sentence may be too little to be answered.
        with contextlib.suppress(Late):
            await client.wait_until(answered, DEADLINE_S, "reply")
        await asyncio.sleep(LISTEN_S)
        return read_turn(clip.name, asked_at_s, client.events, client.wire.receive_rate_hz)
