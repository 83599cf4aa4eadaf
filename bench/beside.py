"""`sori bench beside`: does a conversation suffer from what else the server does?

Somebody talks to a server with the embedded models. Meanwhile an hour of speech is uploaded to be
written down, and a long text is spoken into an MP3 file. How long the turns of the event loop were,
and how soon the conversation was answered, alone and beside that.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import sys
import threading
import wave
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import httpx
import numpy as np

from bench.client import Gone, Late, open_client
from bench.clips import CLIP_RATE_HZ, Clip, load_clips
from bench.machine import describe_machine
from bench.report import Summary, print_report, render_table, summaries_json, summarise
from bench.scrape import loop_busy_ms, scrape
from bench.sentences import LONG_TEXT
from bench.server import Server, ServerError, end_on_sigterm, start_server
from bench.turn import Turn, milliseconds

WARM_UP_TURNS = 1


@dataclass(frozen=True, slots=True)
class Conversation:
    """What one conversation met. loop_ms: the bound below which 99 % of the loop's turns stayed."""

    turns: list[Turn]
    loop_ms: float
    longest_ms: float

    def voice_to_voice(self) -> Summary | None:
        """From the end of the voice to the first sound, in ms."""
        return summarise(
            milliseconds(turn.asked_at_s, turn.reply.audible_at_s) if turn.reply else None
            for turn in self.turns
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if a turn failed, or nothing could run."""
    arguments = build_parser().parse_args(argv)
    end_on_sigterm()
    clips = load_clips()
    try:
        with start_server() as server:
            print("alone …", file=sys.stderr)
            alone = asyncio.run(converse(server, clips, arguments.turns))
            print("beside …", file=sys.stderr)
            with others(server, clips, arguments.minutes) as failures:
                beside = asyncio.run(converse(server, clips, arguments.turns))
    except (ServerError, OSError, Late, Gone) as error:
        print(f"sori bench beside: {error}", file=sys.stderr)
        return 1
    both = {"alone": alone, "beside": beside}
    rows = {name: one.voice_to_voice() for name, one in both.items()}
    failures += [turn.failure for one in both.values() for turn in one.turns if turn.failure]
    gaps = {
        name: sum(bool(turn.reply and turn.reply.gaps) for turn in one.turns)
        for name, one in both.items()
    }
    loops = {name: {"p99": one.loop_ms, "most": one.longest_ms} for name, one in both.items()}
    print_report(
        [
            render_table(rows, "ms, voice to voice"),
            *(
                f"loop, {name}: 99 % of turns within {one.loop_ms:g} ms"
                for name, one in both.items()
            ),
            f"replies with a gap: {gaps}",
            f"failed: {'; '.join(failures) or 'none'}",
        ],
        {
            "bench": "beside",
            "machine": describe_machine(),
            "voice_to_voice_ms": summaries_json(rows),
            "loop_ms": loops,
            "gaps": gaps,
            "failed": failures,
        },
    )
    return 1 if failures else 0


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench beside`."""
    parser = argparse.ArgumentParser(prog="sori bench beside", description=__doc__)
    parser.add_argument("--turns", type=int, default=7, help="of the conversation, each time")
    parser.add_argument("--minutes", type=float, default=60.0, help="of speech that is uploaded")
    return parser


async def converse(server: Server, clips: Sequence[Clip], turns: int) -> Conversation:
    """Turns of one person, after a first that is not counted."""
    async with open_client(server.realtime_url) as client:
        for number in range(WARM_UP_TURNS):
            await client.speak(clips[number % len(clips)])
        before = scrape(server)
        said = [await client.speak(clips[number % len(clips)]) for number in range(turns)]
        after = scrape(server)
    return Conversation(said, loop_busy_ms(before, after, 0.99), loop_busy_ms(before, after, 1.0))


@contextlib.contextmanager
def others(server: Server, clips: Sequence[Clip], minutes: float) -> Iterator[list[str]]:
    """An upload and a long speech, over and over, until the block ends. Yields what failed."""
    failures: list[str] = []
    ended = threading.Event()
    recording = long_recording(clips, minutes)
    jobs = [
        threading.Thread(target=_repeat, args=(work, ended, failures))
        for work in (lambda: _upload(server, recording, ended), lambda: _speak(server, ended))
    ]
    for job in jobs:
        job.start()
    try:
        yield failures
    finally:
        ended.set()
        for job in jobs:
            job.join()


def _repeat(work: object, ended: threading.Event, failures: list[str]) -> None:
    assert callable(work)
    while not ended.is_set():
        try:
            work()
        except httpx.HTTPError as error:
            failures.append(f"{type(error).__name__}: {error}")
            return


def _upload(server: Server, recording: bytes, ended: threading.Event) -> None:
    """Written down as a stream, so that it can be left when the conversation is over."""
    form = {"model": "sori", "stream": "true"}
    files = {"file": ("hour.wav", recording)}
    url = f"{server.url}/v1/audio/transcriptions"
    with httpx.stream("POST", url, data=form, files=files, timeout=120) as answer:
        _read(answer, ended)


def _speak(server: Server, ended: threading.Event) -> None:
    body = {"model": "sori", "voice": "marin", "input": LONG_TEXT, "response_format": "mp3"}
    url = f"{server.url}/v1/audio/speech"
    with httpx.stream("POST", url, json=body, timeout=120) as answer:
        _read(answer, ended)


def _read(answer: httpx.Response, ended: threading.Event) -> None:
    answer.raise_for_status()
    for _ in answer.iter_bytes():
        if ended.is_set():
            return


def long_recording(clips: Sequence[Clip], minutes: float) -> bytes:
    """A WAV file of the clips over and over."""
    once = np.concatenate([clip.samples for clip in clips])
    wanted = round(minutes * 60 * CLIP_RATE_HZ)
    samples = np.tile(once, wanted // len(once) + 1)[:wanted]
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(CLIP_RATE_HZ)
        writer.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()
