"""`sori bench omni`: where the time of an omni model's reply goes, stage by stage.

A checkpoint of random weights is made, and its Thinker, Talker and VoiceBox run in a process each,
joined by the engine's pools; what is said makes no sense, what it costs is that of the size. Times
of steps are taken in the workers. In the time to first audio, "no stage computes" is the hand-off:
putting and taking payloads, the server in between, and whatever waits; the VoiceBox's steps have
the watermark in them. RTF: seconds from the request to the last sample, by seconds of speech.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.device_handoff import handoff_lines
from bench.machine import describe_machine
from bench.omni_weights import FAMILIES, SCALES, SIZES, SizeError, make_weights
from bench.report import print_report
from pipeline.config import EngineConfig, StageConfig, StagesConfig
from pipeline.engine import Engine
from pipeline.errors import EngineError
from pipeline.messages import (
    OUTPUT_RATE_HZ,
    Audio,
    Failed,
    Mark,
    Plan,
    PromptItem,
    Sampling,
    Start,
)
from pipeline.trace import read_trace

STAGES = ("thinker", "talker", "voicebox")
PLANS = ("latency first", "quality first")
QUESTION = "Tell me in three sentences why the sky is blue."
RELEASED = "the configuration of Qwen3-Omni-30B-A3B, without its towers"


@dataclass(frozen=True, slots=True)
class Reply:
    """One turn: when it was asked and what came when, in seconds; samples of its speech."""

    request_id: str
    asked_s: float
    marks: Mapping[str, float]
    samples: int


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if a reply failed, or nothing could run."""
    arguments = build_parser().parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="sori-omni-", dir=arguments.folder))
    try:
        print(f"making {arguments.model} ({arguments.size}) …", file=sys.stderr)
        make_weights(folder / "model", arguments.model, arguments.size)
        replies = asyncio.run(measure(folder, arguments))
        handoffs = handoff_lines(arguments.device)
        traces = {name: read_trace(folder / "trace", name) for name in STAGES}
    except (EngineError, SizeError, ImportError, OSError) as error:
        print(f"sori bench omni: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    rows = {plan: summary(replies[plan], traces) for plan in PLANS}
    print_report(
        [
            f"{arguments.model}, {described(arguments.size)}, on {arguments.device}",
            *table(rows),
            *handoffs,
        ],
        {
            "bench": "omni",
            "machine": describe_machine(),
            "settings": {key: str(value) for key, value in vars(arguments).items()},
            "ms": rows,
        },
    )
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench omni`."""
    parser = argparse.ArgumentParser(prog="sori bench omni", description=__doc__)
    parser.add_argument("--model", choices=FAMILIES, default="qwen3-omni")
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="small",
        help=f"small: released widths, fewer layers and experts; real: {RELEASED}",
    )
    parser.add_argument("--device", default="cpu", help="of all three stages, such as cuda:0")
    parser.add_argument("--turns", type=int, default=3, help="of each plan, after one that warms")
    parser.add_argument("--tokens", type=int, default=6, help="most of a reply")
    parser.add_argument("--frames", type=int, default=16, help="most of a reply")
    parser.add_argument("--folder", type=Path, help="where the weights are made, and removed again")
    return parser


def described(size: str) -> str:
    """What a size is."""
    if size == "tiny":
        return "tiny: less than a million weights"
    scale = ", ".join(f"{value} {key.replace('_', ' ')}" for key, value in SCALES[size].items())
    return f"{size}: widths of Qwen3-Omni-30B-A3B, {scale}, Code2Wav whole, towers tiny"


def engine_config(folder: Path, arguments: argparse.Namespace) -> EngineConfig:
    """Three stages of the checkpoint, greedy, with a trace."""
    family = arguments.model.replace("-", "_").replace(".", "_")
    options: dict[str, Any] = {"model": str(folder / "model")}
    speaking = {**options, "greedy": True, "max_frames": arguments.frames}
    stages = {
        name: StageConfig(
            kind=f"{family}_{name}",
            device=arguments.device,
            options=speaking if name == "talker" else options,
        )
        for name in STAGES
    }
    return EngineConfig(
        home=folder / "home",
        trace=folder / "trace",
        stages=StagesConfig(**stages),
        load_timeout_s=1800,
        step_timeout_s=600,
        synthesis_timeout_s=600,
    )


async def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, list[Reply]]:
    """Replies of each plan, in turns, so that drift of the machine hits both."""
    engine = Engine(engine_config(folder, arguments))
    print("loading …", file=sys.stderr)
    await engine.start(STAGES)
    replies: dict[str, list[Reply]] = {plan: [] for plan in PLANS}
    try:
        for turn in range(arguments.turns + 1):
            for plan in PLANS:
                name = f"{plan} {turn}"
                print(f"  {name}", file=sys.stderr)
                reply = await _speak(engine, name, plan, arguments.tokens)
                if turn:  # the first of each only warms
                    replies[plan].append(reply)
    finally:
        await engine.shutdown()
    return replies


async def _speak(engine: Engine, name: str, plan: str, tokens: int) -> Reply:
    """One turn. Raises EngineError if it fails."""
    start = Start(
        name,
        Plan.SPEECH,
        items=(PromptItem("user", QUESTION),),
        sampling=Sampling(temperature=0.0, max_tokens=tokens),
        latency_first=plan == PLANS[0],
    )
    asked_s, samples, marks = time.monotonic(), 0, dict[str, float]()
    stream = engine.submit(start)
    async with aclosing(stream):
        async for message in stream:
            match message:
                case Mark(mark, at_s):
                    marks[mark] = at_s
                case Audio():
                    samples += message.samples
                case Failed(code, told):
                    raise EngineError(f"{name}: {code}: {told}")
                case _:
                    pass
    if not samples:
        raise EngineError(f"{name}: nothing was said")
    return Reply(name, asked_s, marks, samples)


# -- what the workers have noted -------------------------------------------------------------------

Notes = Sequence[Mapping[str, Any]]


def summary(replies: Sequence[Reply], traces: Mapping[str, Notes]) -> dict[str, float | None]:
    """Medians over the replies, in milliseconds; shares and factors as they are."""
    each = [_of_reply(reply, traces) for reply in replies]
    found: dict[str, float | None] = {}
    for key in each[0]:
        known = [value for one in each if (value := one[key]) is not None]
        found[key] = round(median(known), 3) if known else None
    return found


def _of_reply(reply: Reply, traces: Mapping[str, Notes]) -> dict[str, float | None]:
    notes = {name: [n for n in all_ if _belongs(n, reply)] for name, all_ in traces.items()}
    thinker, talker, voicebox = ([n for n in notes[name] if n["what"] == "step"] for name in STAGES)
    written = [n for n in thinker if _made(n, "TextDelta")]
    spoken = [n for n in talker if _made(n, "Frames")]
    first_frames_s = spoken[0]["began_s"] if spoken else reply.marks["first_audio"]
    heard_s = reply.marks["first_audio"]
    before = [n for all_ in notes.values() for n in all_ if n["ended_s"] <= heard_s]
    steps = [n for n in (*thinker, *talker, *voicebox) if n["began_s"] < heard_s]
    computing = covered((n["began_s"], min(n["ended_s"], heard_s)) for n in steps)
    idle_s = heard_s - reply.asked_s - computing
    prompts = [n for n in talker if n["ended_s"] <= first_frames_s]
    return {
        "Thinker, prompt": _median_ms(written[:1]),
        "Thinker, a token": _median_ms(written[1:]),
        "Talker, prompt": _sum_ms(prompts),
        "Talker, a frame": _median_ms(spoken[1:]),
        "VoiceBox, a chunk": _median_ms([n for n in voicebox if _made(n, "Audio")]),
        "first text": 1000 * (reply.marks["first_text"] - reply.asked_s),
        "first frames": 1000 * (reply.marks["first_frames"] - reply.asked_s),
        "first audio": 1000 * (heard_s - reply.asked_s),
        "of it, no stage computes": 1000 * idle_s,
        "of that, pool put": _sum_ms([n for n in before if n["what"] == "put"]),
        "of that, pool get": _sum_ms([n for n in before if n["what"] == "take"]),
        "hand-off's share (%)": 100 * idle_s / (heard_s - reply.asked_s),
        "RTF (not ms)": (reply.marks["audio_end"] - reply.asked_s)
        / (reply.samples / OUTPUT_RATE_HZ),
    }


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds in at least one of these spans."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _belongs(note: Mapping[str, Any], reply: Reply) -> bool:
    return reply.request_id in note.get("requests", [note.get("request")])


def _made(note: Mapping[str, Any], kind: str) -> bool:
    return any(made == kind for _, made in note["made"])


def _sum_ms(notes: Notes) -> float:
    return 1000 * sum((float(note["ended_s"] - note["began_s"]) for note in notes), 0.0)


def _median_ms(notes: Notes) -> float | None:
    return 1000 * median(n["ended_s"] - n["began_s"] for n in notes) if notes else None


def table(rows: Mapping[str, Mapping[str, float | None]]) -> list[str]:
    """A column for each plan."""
    lines = [f"{'':26}" + "".join(f"{plan:>15}" for plan in rows) + "   (ms, medians)"]
    for key in rows[PLANS[0]]:
        cells = ("-" if row[key] is None else f"{row[key]:.1f}" for row in rows.values())
        lines.append(f"{key:26}" + "".join(f"{cell:>15}" for cell in cells))
    return lines
