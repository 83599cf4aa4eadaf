"""`sori bench roundtrip`: what is spoken over REST, is it understood over REST?

Each sentence is spoken by `/v1/audio/speech` in each voice, and transcribed by
`/v1/audio/transcriptions`. Then a short and a long text are spoken: when the first byte comes, and
how much more memory the long one takes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.machine import describe_machine
from bench.report import print_report
from bench.sentences import LONG_TEXT, SENTENCES
from bench.server import Server, ServerError, end_on_sigterm, start_server
from pipeline.voices import VOICES

TIMEOUT_S = 120.0
FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")


@dataclass(frozen=True, slots=True)
class Spoken:
    """One answer of `/v1/audio/speech`. first_byte_ms: after the request was sent."""

    content: bytes
    first_byte_ms: float
    total_ms: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if something failed, or nothing could run."""
    arguments = build_parser().parse_args(argv)
    try:
        from bench.understanding import word_error_rate
    except ImportError as error:
        print(f"sori bench roundtrip: {error}; pip install 'sori[dev]'", file=sys.stderr)
        return 1
    sentences = SENTENCES[: arguments.sentences]
    rates: dict[str, float] = {}
    try:
        end_on_sigterm()
        print("starting a server …", file=sys.stderr)
        with start_server(arguments.config) as server:
            for voice in arguments.voices:
                heard = [_there_and_back(server, text, voice, arguments) for text in sentences]
                rates[voice] = word_error_rate(sentences, heard)
                print(f"  {voice:8} {rates[voice]:6.1%}", file=sys.stderr)
            long = measure_long(server, arguments)
    except (ServerError, OSError, AnswerError) as error:
        print(f"sori bench roundtrip: {error}", file=sys.stderr)
        return 1
    print_report(_lines(len(sentences), rates, long), _result(arguments, rates, long))
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="sori bench roundtrip", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--config", type=Path, help="configuration of the server")
    parser.add_argument(
        "--sentences", type=int, default=5, help=f"how many in each voice, at most {len(SENTENCES)}"
    )
    parser.add_argument("--voices", nargs="+", default=list(VOICES), choices=list(VOICES))
    parser.add_argument("--format", default="mp3", choices=[f for f in FORMATS if f != "pcm"])
    parser.add_argument("--quality-first", action="store_true", help="send latency_first: false")
    return parser


class AnswerError(Exception):
    """The server refused something. The message has its answer."""


def speak(
    server: Server, text: str, voice: str, kind: str, *, latency_first: bool = True
) -> Spoken:
    """One text. Raises AnswerError, OSError."""
    import httpx

    body = {
        "model": "tts-1",
        "input": text,
        "voice": voice,
        "response_format": kind,
        "latency_first": latency_first,
    }
    began_s = time.perf_counter()
    first_s: float | None = None
    content = bytearray()
    url = f"{server.url}/v1/audio/speech"
    try:
        with httpx.stream("POST", url, json=body, timeout=TIMEOUT_S) as answer:
            if answer.status_code != httpx.codes.OK:
                raise AnswerError(answer.read().decode())
            for piece in answer.iter_raw():
                first_s = first_s or time.perf_counter()
                content += piece
    except httpx.HTTPError as error:
        raise AnswerError(f"{url}: {error}") from error
    ended_s = time.perf_counter()
    return Spoken(
        bytes(content), ((first_s or ended_s) - began_s) * 1000, (ended_s - began_s) * 1000
    )


def hear(server: Server, content: bytes, name: str) -> str:
    """The transcript of a file. Raises AnswerError, OSError."""
    import httpx

    url = f"{server.url}/v1/audio/transcriptions"
    try:
        answer = httpx.post(
            url, files={"file": (name, content)}, data={"model": "whisper-1"}, timeout=TIMEOUT_S
        )
    except httpx.HTTPError as error:
        raise AnswerError(f"{url}: {error}") from error
    if answer.status_code != httpx.codes.OK:
        raise AnswerError(answer.text)
    return str(answer.json()["text"])


def _there_and_back(server: Server, text: str, voice: str, wish: argparse.Namespace) -> str:
    spoken = speak(server, text, voice, wish.format, latency_first=not wish.quality_first)
    return hear(server, spoken.content, f"speech.{wish.format}")


def measure_long(server: Server, wish: argparse.Namespace) -> dict[str, float]:
    """First byte of a short and of a long text, and what the long one needs more of memory."""
    fast = not wish.quality_first
    speak(server, SENTENCES[0], "marin", wish.format, latency_first=fast)  # caches fill once
    short = speak(server, LONG_TEXT[:400], "marin", wish.format, latency_first=fast)
    before = peak_mib(server.process.pid)
    long = speak(server, LONG_TEXT, "marin", wish.format, latency_first=fast)
    return {
        "characters": len(LONG_TEXT),
        "first_byte_ms": round(long.first_byte_ms, 1),
        "first_byte_short_ms": round(short.first_byte_ms, 1),
        "total_ms": round(long.total_ms, 1),
        "nbytes": len(long.content),
        "peak_mib": round(peak_mib(server.process.pid), 1),
        "peak_growth_mib": round(peak_mib(server.process.pid) - before, 1),
    }


def peak_mib(pid: int) -> float:
    """Sum of the highest resident sizes of a process and its children. Linux only; else 0."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(
                line.split(":", 1) for line in status.read_text().splitlines() if ":" in line
            )
        except OSError:  # it has ended meanwhile
            continue
        if pid in (int(status.parent.name), int(fields["PPid"])) and "VmHWM" in fields:
            total += int(fields["VmHWM"].split()[0])
    return total / 1024


def _lines(sentences: int, rates: dict[str, float], long: dict[str, float]) -> list[str]:
    return [
        f"{sentences} sentences in each voice, word error rate of their transcripts",
        *(f"  {voice:8} {rate:6.1%}" for voice, rate in rates.items()),
        f"{long['characters']:g} characters: first byte after {long['first_byte_ms']:.0f} ms "
        f"(400 characters: {long['first_byte_short_ms']:.0f} ms), all after "
        f"{long['total_ms'] / 1000:.1f} s",
        f"memory at its highest {long['peak_mib']:.0f} MiB, of them for the long text "
        f"{long['peak_growth_mib']:.1f} MiB",
    ]


def _result(
    wish: argparse.Namespace, rates: dict[str, float], long: dict[str, float]
) -> dict[str, Any]:
    return {
        "bench": "roundtrip",
        "machine": describe_machine(),
        "settings": {
            "sentences": min(wish.sentences, len(SENTENCES)),
            "format": wish.format,
            "latency_first": not wish.quality_first,
        },
        "word_error_rate": {voice: round(rate, 4) for voice, rate in rates.items()},
        "long": long,
    }
