"""`sori bench voice`: people speak to the server in real time; how soon does it answer?

Voice-to-voice is the time from the end of the voice in the recording to the arrival of the first
10 ms of reply above −50 dBFS, at the client's end of the real socket.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.chart import draw_steps, steps_of, write_chart
from bench.client import APPEND_MS, Gone, Late, RealtimeClient, open_client
from bench.clips import DEFAULT_FOLDER, Clip, ClipsError, load_clips
from bench.machine import describe_machine
from bench.report import Summary, print_report, render_table, summaries_json, summarise
from bench.server import ServerError, end_on_sigterm, start_server
from bench.turn import LOUDSPEAKER_MS, Turn, milliseconds
from bench.wire import WIRES

SERVER_VAD = {
    "audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500}}}
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if any reply failed, or nothing could run."""
    arguments = build_parser().parse_args(argv)
    try:
        clips = load_clips(arguments.clips)
        with _server(arguments) as url:
            turns = asyncio.run(run(url, clips, arguments))
    except (ClipsError, ServerError, OSError, Late, Gone) as error:
        print(f"sori bench voice: {error}", file=sys.stderr)
        return 1
    result = evaluate(turns)
    print_report(
        [*_lines(turns, arguments), render_table(result.rows, "ms")],
        {
            "bench": "voice",
            "machine": describe_machine(),
            "settings": _settings(arguments),
            **result.to_json(),
        },
    )
    if arguments.chart is not None:
        write_chart(arguments.chart, chart_of(result.rows))
    return 1 if result.failures else 0


STEPS = (
    ("pause is noticed", "voice_end", "guess"),
    ("Transcriber", "guess", "transcript"),
    ("Thinker, to its first word", "thinker_start", "first_text"),
    ("Thinker and Talker, first clause", "first_text", "first_frames"),
    ("VoiceBox, first chunk", "first_frames", "first_audio"),
    ("the turn is over", "voice_end", "turn_end"),
    ("first audio is sent", "voice_end", "first_audio_sent"),
)
"""Of the server's own record, which begins with the last window of speech."""


def chart_of(rows: Mapping[str, Summary | None]) -> str:
    """Medians of the server's record as bars."""
    points = {
        name.removeprefix("server."): row.p50
        for name, row in rows.items()
        if row is not None and name.startswith("server.")
    }
    title = "One turn, from the last speech to the first sound (medians, ms)"
    return draw_steps(title, steps_of(points, STEPS))


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench voice`."""
    parser = argparse.ArgumentParser(prog="sori bench voice", description=__doc__)
    parser.add_argument("--url", help="ws://…/v1/realtime of a running server (default: own one)")
    parser.add_argument("--api-key", help="key of that server")
    parser.add_argument("--config", type=Path, help="configuration of the own server")
    parser.add_argument("--sessions", type=int, default=1, help="people who talk at once")
    parser.add_argument("--turns", type=int, default=7, help="turns of each of them")
    parser.add_argument("--warmup-turns", type=int, default=0, help="turns before, not counted")
    parser.add_argument("--append-ms", type=int, default=APPEND_MS, help="audio in one append")
    parser.add_argument("--format", choices=sorted(WIRES), default="pcm")
    parser.add_argument("--server-vad", action="store_true", help="turns end by 500 ms of silence")
    parser.add_argument("--clips", type=Path, default=DEFAULT_FOLDER, help="folder of recordings")
    parser.add_argument("--chart", type=Path, help="draw where the time goes into this SVG file")
    parser.add_argument("--deadline-s", type=float, default=120.0, help="longest wait for a reply")
    return parser


@contextmanager
def _server(arguments: argparse.Namespace) -> Iterator[str]:
    if arguments.url:
        yield arguments.url
        return
    end_on_sigterm()
    print("starting a server …", file=sys.stderr)
    with start_server(arguments.config) as server:
        yield server.realtime_url


async def run(url: str, clips: Sequence[Clip], arguments: argparse.Namespace) -> list[Turn]:
    """All sessions' counted turns."""
    async with asyncio.TaskGroup() as tasks:
        talking = [
            tasks.create_task(_talk(url, clips, index, arguments))
            for index in range(arguments.sessions)
        ]
    return [turn for task in talking for turn in task.result()]


async def _talk(
    url: str, clips: Sequence[Clip], index: int, arguments: argparse.Namespace
) -> list[Turn]:
    """One session. What it cannot hold counts as failed turns, not as fewer turns."""
    total = arguments.warmup_turns + arguments.turns
    # Each starts with another clip, so that sessions do not end their turns together.
    order = [clips[(index + turn) % len(clips)] for turn in range(total)]
    wire = WIRES[arguments.format]()
    turns: list[Turn] = []
    failure = "the session ended early"
    try:
        async with open_client(
            url,
            wire,
            append_ms=arguments.append_ms,
            session=SERVER_VAD if arguments.server_vad else None,
            api_key=arguments.api_key,
        ) as client:
            for clip in order:
                turns += [await _say(client, clip, arguments.deadline_s)]
    except (OSError, Late, Gone) as error:
        failure = str(error)
    missing = order[len(turns) :]
    turns += [Turn(clip.name, 0.0, wire.receive_rate_hz, failure=failure) for clip in missing]
    return turns[arguments.warmup_turns :]


async def _say(client: RealtimeClient, clip: Clip, deadline_s: float) -> Turn:
    turn = await client.speak(clip, deadline_s=deadline_s)
    reply = turn.reply
    delay = milliseconds(turn.asked_at_s, reply.audible_at_s) if reply else None
    told = "no audible reply" if delay is None else f"{delay:6.0f} ms"
    print(f"  {turn.name:24} {told}  {reply.transcript[:60] if reply else ''}", file=sys.stderr)
    return turn


class Evaluation:
    """The measurements of a run."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = len(turns)
        self.failures = [failure for turn in turns if (failure := _failure(turn))]
        self.cut_ins = sum(turn.cut_in for turn in turns)
        gaps = [gap for turn in turns if turn.reply for gap in turn.reply.gaps]
        self.underruns = len(gaps)
        self.underrun_ms = sum(gap.seconds for gap in gaps) * 1000
        self.rows = _rows([turn for turn in turns if not _failure(turn)])

    def to_json(self) -> dict[str, Any]:
        """Everything but the machine and the settings."""
        return {
            "turns": self.turns,
            "failed": len(self.failures),
            "failures": dict(Counter(self.failures)),
            "cut_ins": self.cut_ins,
            "underruns": self.underruns,
            "underrun_ms": round(self.underrun_ms, 1),
            "ms": summaries_json(self.rows),
        }


def evaluate(turns: Sequence[Turn]) -> Evaluation:
    """Reduce turns to numbers."""
    return Evaluation(turns)


def _failure(turn: Turn) -> str | None:
    if turn.failure:
        return turn.failure
    if turn.reply is None:
        return "no reply"
    failures = [reply.failure for reply in turn.replies if reply.failure]
    if failures:
        return failures[0]
    return None if turn.reply.audible_at_s else "an inaudible reply"


def _rows(turns: Sequence[Turn]) -> dict[str, Summary | None]:
    """Client-side times from the end of the voice; then the server's own, from its turn's end."""
    # An answer that was heard before the question ended is counted as a cut-in, not as a fast one.
    pairs = [
        (turn, reply)
        for turn in turns
        if (reply := turn.reply) and (reply.audible_at_s or 0.0) >= turn.asked_at_s
    ]
    rows = {
        "voice_to_voice": summarise(milliseconds(t.asked_at_s, r.audible_at_s) for t, r in pairs),
        "turn_end": summarise(
            milliseconds(t.asked_at_s, _last_at_s(t, "input_audio_buffer.speech_stopped"))
            for t, _ in pairs
        ),
        "first_text": summarise(milliseconds(t.asked_at_s, r.first_text_at_s) for t, r in pairs),
        "first_audio": summarise(milliseconds(t.asked_at_s, r.first_audio_at_s) for t, r in pairs),
        "reply_end": summarise(milliseconds(t.asked_at_s, r.done_at_s) for t, r in pairs),
        "lead_in": summarise(reply.lead_in_ms for _, reply in pairs),
    }
    stages = dict.fromkeys(name for _, reply in pairs for name in reply.timings_ms)
    for name in stages:
        rows[f"server.{name}"] = summarise(reply.timings_ms.get(name) for _, reply in pairs)
    return rows


def _last_at_s(turn: Turn, event_type: str) -> float | None:
    return next((got.at_s for got in reversed(turn.events) if got.type == event_type), None)


def _lines(turns: Sequence[Turn], arguments: argparse.Namespace) -> list[str]:
    result = evaluate(turns)
    lines = [
        f"{arguments.sessions} session(s), {result.turns} turns, {arguments.append_ms} ms appends, "
        f"{arguments.format}, {'server_vad' if arguments.server_vad else 'default turn detection'}",
        f"failed {len(result.failures)}, cut in {result.cut_ins}, underruns {result.underruns} "
        f"({result.underrun_ms:.0f} ms)",
    ]
    return lines + [f"  failed: {failure}" for failure in result.failures]


def _settings(arguments: argparse.Namespace) -> Mapping[str, Any]:
    return {
        "sessions": arguments.sessions,
        "turns_each": arguments.turns,
        "warmup_turns": arguments.warmup_turns,
        "append_ms": arguments.append_ms,
        "format": arguments.format,
        "turn_detection": "server_vad" if arguments.server_vad else "default",
        "loudspeaker_ms": LOUDSPEAKER_MS,
    }
