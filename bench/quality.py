"""`sori bench quality`: what latency first costs the ear, and quality first the clock.

Latency first, a long sentence is spoken in pieces, each as soon as it can be; quality first, in one
go. The same texts are spoken both ways, and the sound is compared at the places where latency first
joins two pieces inside a sentence: how far pitch and level jump there, and how long the pause is.
Quality first has no join at these places, so its figures show what is natural there.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.levels import dbfs, first_audible_sample
from audio.resample import StreamResampler
from bench.machine import describe_machine
from bench.report import Summary, print_report, summarise
from pipeline.clauses import ClauseSplitter, Join
from pipeline.engine import Engine
from pipeline.errors import EngineError
from pipeline.messages import (
    INPUT_RATE_HZ,
    OUTPUT_RATE_HZ,
    Alignment,
    Audio,
    Failed,
    Plan,
    PromptItem,
    Start,
    TextDelta,
)
from pipeline.voices import VOICES
from realtime.config import load_config

MODES = {"latency first": True, "quality first": False}
STAGES = ("talker", "voicebox", "transcriber")

BESIDE_SAMPLES = OUTPUT_RATE_HZ // 5
"""Sound on each side of a join that is compared: 200 ms."""

TEXTS = (
    "When the first snow fell, the children ran into the garden, built a fort behind the hedge, "
    "and did not come back before it was dark. Their mother had hot soup ready for them.",
    "Although the harbor is small, ships from the whole coast call there in the summer, because "
    "the water is deep, the market is large, and the people know how to mend a sail.",
    "If you want to bake good bread, you need flour, water, salt and a little patience, since the "
    "dough has to rest in a warm place for at least three hours before it goes into the oven.",
    "The old clock, which had stood in the hall for a hundred years, stopped on a Sunday morning, "
    "and nobody in the house could say whether it had ever been wound by anyone but my aunt.",
    "After the meeting, we walked along the river to the station, talked about the plans for the "
    "new library, and agreed that the building should have a garden on its roof.",
)


@dataclass(frozen=True, slots=True)
class Speech:
    """A text as it was spoken. ends: (character, sample) of each word's end."""

    samples: NDArray[np.int16]
    ends: tuple[tuple[int, int], ...]
    first_audio_ms: float


@dataclass(frozen=True, slots=True)
class Seam:
    """The sound around one place in a text. None: nothing voiced on one side of it."""

    pitch_step_semitones: float | None
    level_step_db: float
    pause_ms: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if nothing could run."""
    arguments = build_parser().parse_args(argv)
    try:
        import parselmouth  # noqa: F401 - looked for before the models are loaded

        columns = asyncio.run(measure(arguments))
    except (ImportError, EngineError, SpeechError) as error:
        print(f"sori bench quality: {error}", file=sys.stderr)
        return 1
    result = {"bench": "quality", "machine": describe_machine(), "voices": arguments.voices}
    print_report(
        [f"{len(TEXTS)} texts in {len(arguments.voices)} voices", render(columns)],
        {**result, "modes": columns},
    )
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="sori bench quality", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--config", type=Path, help="configuration of the engine")
    parser.add_argument("--voices", nargs="+", default=["marin", "cedar"], choices=list(VOICES))
    return parser


class SpeechError(Exception):
    """A text could not be spoken or heard."""


async def measure(wish: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """A column of figures for each mode."""
    from bench.understanding import word_error_rate

    engine = Engine(load_config(wish.config))
    columns: dict[str, dict[str, Any]] = {}
    try:
        await engine.start(STAGES)
        for mode, latency_first in MODES.items():
            spoken = [
                (text, await speak(engine, text, voice, latency_first=latency_first))
                for voice in wish.voices
                for text in TEXTS
            ]
            heard = [await hear(engine, speech.samples) for _, speech in spoken]
            seams = [
                seam_at(speech, place)
                for text, speech in spoken
                for place in joins_inside(text, latency_first=True)
            ]
            columns[mode] = _column(
                seams,
                joins=sum(len(joins_inside(text, latency_first=latency_first)) for text in TEXTS),
                rate=word_error_rate([text for text, _ in spoken], heard),
                first_audio=summarise(speech.first_audio_ms for _, speech in spoken),
            )
    finally:
        await engine.shutdown()
    return columns


def joins_inside(text: str, *, latency_first: bool) -> list[int]:
    """Characters at which one piece ends and the next begins within a sentence."""
    splitter = ClauseSplitter(latency_first)
    pieces = [*splitter.feed(text), *splitter.flush()]
    return [piece.char_end for piece in pieces[:-1] if piece.join is not Join.SENTENCE]


async def speak(engine: Engine, text: str, voice: str, *, latency_first: bool) -> Speech:
    """One text, by Talker and VoiceBox. Raises SpeechError."""
    start = Start(
        f"quality-{time.monotonic_ns()}",
        Plan.TTS,
        items=(PromptItem("assistant", text),),
        voice=voice,
        latency_first=latency_first,
    )
    pieces: list[NDArray[np.int16]] = []
    ends: list[tuple[int, int]] = []
    began_s = time.perf_counter()
    first_s = began_s
    async with aclosing(engine.submit(start)) as messages:
        async for message in messages:
            match message:
                case Audio(pcm=pcm):
                    if not pieces:
                        first_s = time.perf_counter()
                    pieces.append(np.frombuffer(pcm, np.int16))
                case Alignment(spans=spans):
                    ends += [(char_end, sample) for _, char_end, sample in spans]
                case Failed(message=reason):
                    raise SpeechError(reason)
    return Speech(np.concatenate(pieces), tuple(ends), (first_s - began_s) * 1000)


async def hear(engine: Engine, samples: NDArray[np.int16]) -> str:
    """What the Transcriber makes of it. Raises SpeechError."""
    resampler = StreamResampler(OUTPUT_RATE_HZ, INPUT_RATE_HZ)
    given = np.concatenate([resampler.process(samples), resampler.flush()])
    start = Start(f"quality-{time.monotonic_ns()}", Plan.TRANSCRIBE)
    text = ""
    async with aclosing(engine.submit(start, given)) as messages:
        async for message in messages:
            if isinstance(message, TextDelta):
                text += message.text
            elif isinstance(message, Failed):
                raise SpeechError(message.message)
    return text


def seam_at(speech: Speech, place: int) -> Seam:
    """The sound around the end of the last word before a character of the text."""
    end = max((sample for char_end, sample in speech.ends if char_end <= place), default=0)
    pause = first_audible_sample(speech.samples[end:], OUTPUT_RATE_HZ) or 0
    begin = end + pause
    before = speech.samples[max(0, end - BESIDE_SAMPLES) : end]
    after = speech.samples[begin : begin + BESIDE_SAMPLES]
    pitches = _pitch_hz(before), _pitch_hz(after)
    step = None
    if pitches[0] and pitches[1]:
        step = abs(12 * float(np.log2(pitches[1] / pitches[0])))
    return Seam(step, abs(dbfs(after) - dbfs(before)), pause * 1000 / OUTPUT_RATE_HZ)


def _pitch_hz(samples: NDArray[np.int16]) -> float | None:
    """Median F0 of its voiced frames, by Praat's autocorrelation."""
    import parselmouth

    if samples.size < OUTPUT_RATE_HZ // 20:
        return None
    sound = parselmouth.Sound(samples.astype(np.float64) / 32768, OUTPUT_RATE_HZ)
    track = sound.to_pitch_ac(time_step=0.005, pitch_floor=60.0, pitch_ceiling=500.0)
    voiced = track.selected_array["frequency"]
    voiced = voiced[voiced > 0]
    return float(np.median(voiced)) if voiced.size else None


def _column(
    seams: Sequence[Seam], *, joins: int, rate: float, first_audio: Summary | None
) -> dict[str, Any]:
    def told(summary: Summary | None) -> dict[str, float | int] | None:
        return summary.to_json() if summary else None

    return {
        "joins_inside_sentences": joins,
        "pitch_step_semitones": told(summarise(seam.pitch_step_semitones for seam in seams)),
        "level_step_db": told(summarise(seam.level_step_db for seam in seams)),
        "pause_ms": told(summarise(seam.pause_ms for seam in seams)),
        "word_error_rate": round(rate, 4),
        "first_audio_ms": told(first_audio),
    }


def render(columns: dict[str, dict[str, Any]]) -> str:
    """A Markdown table, for docs; medians, and p95 in parentheses."""

    def cell(value: Any) -> str:
        if isinstance(value, dict):
            return f"{value['p50']:g} ({value['p95']:g})"
        return "–" if value is None else f"{value:g}"

    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in next(iter(columns.values())):
        cells = " | ".join(cell(column[name]) for column in columns.values())
        lines.append(f"| {name.replace('_', ' ')} | {cells} |")
    return "\n".join(lines)
