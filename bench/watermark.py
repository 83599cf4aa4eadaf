"""`sori bench watermark`: is the mark found, is it found only where it is, and can it be heard?

The embedded voice speaks in ten voices, unmarked; marks are put in as the server does. Every
utterance goes through every attack, and of what is left a piece is cut out anywhere and searched.
Then unmarked sound is searched, and marked sound with the wrong key. What the mark does to the
sound is told by PESQ (wideband, ITU-T P.862.2), by the ratio of speech to change in segments of
30 ms, and by what the embedded Transcriber understands.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import sawtooth
from scipy.stats import kstest

from audio.resample import resample_whole
from audio.watermark.detector import Finding, find
from audio.watermark.embedder import Embedder
from audio.watermark.features import features
from bench.attacks import ATTACKS, RATE_HZ, Samples
from bench.clips import load_clips
from bench.machine import describe_machine
from bench.report import print_report
from bench.sentences import SENTENCES
from pipeline.engine import Engine
from pipeline.messages import Audio, End, Failed, Plan, PromptItem, Start, TextDelta
from pipeline.voices import VOICES
from realtime.config import load_config

KEY, WRONG_KEY = b"the key of this benchmark", b"another key"
THRESHOLD = 1e-6
DURATIONS_S = (2, 3, 5, 10, 20)
SENTENCES_EACH = (2, 2, 2, 2, 3, 3, 4, 5, 7, 9, 9)
"""How many sentences an utterance has, so that they last 2 to 20 s and a little more."""

CHUNK = RATE_HZ // 5
SEGMENT = RATE_HZ * 30 // 1000
PESQ_HZ, PESQ_S = 16_000, 12
STAGES = ("talker", "voicebox", "transcriber")


@dataclass(frozen=True, slots=True)
class Utterance:
    """What one voice said, unmarked and marked."""

    text: str
    plain: Samples
    marked: Samples
    payload: int


@dataclass(slots=True)
class Tally:
    """Of one attack and one duration."""

    tried: int = 0
    detected: int = 0
    read: int = 0

    def add(self, found: Finding, payload: int) -> None:
        """One piece."""
        self.tried += 1
        if found.p_value < THRESHOLD:
            self.detected += 1
            self.read += found.payload == payload


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code."""
    arguments = build_parser().parse_args(argv)
    return asyncio.run(_run(arguments))


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench watermark`."""
    parser = argparse.ArgumentParser(prog="sori bench watermark", description=__doc__)
    parser.add_argument("--config", type=Path, help="the server's configuration")
    parser.add_argument("--utterances", type=int, default=11, help="of each voice, at most 11")
    parser.add_argument("--minutes", type=float, default=30.0, help="of unmarked sound")
    return parser


async def _run(arguments: argparse.Namespace) -> int:
    config = load_config(arguments.config)
    plain = config.watermark.model_copy(update={"enabled": False})
    engine = Engine(config.model_copy(update={"watermark": plain}))
    await engine.start(STAGES)
    try:
        print("speaking …", file=sys.stderr)
        spoken = [one async for one in speak(engine, arguments.utterances)]
        robust = robustness(spoken)
        print("unmarked sound …", file=sys.stderr)
        unmarked = [
            search(piece, KEY).p_value for piece in unmarked_pieces(spoken, arguments.minutes)
        ]
        wrong = [search(cut(one.marked, 5), WRONG_KEY).p_value for one in spoken]
        print("quality …", file=sys.stderr)
        audible = quality(spoken)
        audible |= await intelligibility(engine, spoken)
    finally:
        await engine.shutdown()
    false = {"unmarked": chance(unmarked), "wrong key": chance(wrong)}
    print_report(
        [
            *robustness_table(robust),
            *(f"{name}: {told}" for name, told in (false | audible).items()),
        ],
        {
            "bench": "watermark",
            "machine": describe_machine(),
            "utterances": len(spoken),
            "seconds": round(sum(len(one.plain) for one in spoken) / RATE_HZ),
            "detected": {
                f"{attack}, {seconds} s": [tally.tried, tally.detected, tally.read]
                for (attack, seconds), tally in robust.items()
            },
            "false": false,
            "quality": audible,
        },
    )
    return 0


async def speak(engine: Engine, count: int) -> Any:
    """The utterances of all voices, marked with payloads of their own."""
    random = np.random.default_rng(1)
    for voice in VOICES:
        for number in range(count):
            chosen = random.choice(len(SENTENCES), SENTENCES_EACH[number], replace=False)
            text = " ".join(SENTENCES[index] for index in chosen)
            plain = await _say(engine, text, voice, number)
            payload = int(random.integers(1 << 16))
            yield Utterance(text, plain, marked(plain, payload), payload)


async def _say(engine: Engine, text: str, voice: str, number: int) -> Samples:
    items = (PromptItem("assistant", text),)
    start = Start(f"{voice}-{number}", Plan.TTS, items=items, voice=voice, seed=number)
    pcm = b""
    async with aclosing(engine.submit(start)) as messages:
        async for message in messages:
            if isinstance(message, Audio):
                pcm += message.pcm
            elif isinstance(message, Failed):
                raise SystemExit(f"sori bench watermark: {message.message}")
    return np.frombuffer(pcm, np.int16)


def marked(samples: Samples, payload: int) -> Samples:
    """As the VoiceBox's worker marks it, in chunks of 200 ms."""
    embedder = Embedder(KEY, payload)
    chunks = [embedder.process(samples[at : at + CHUNK]) for at in range(0, len(samples), CHUNK)]
    return np.concatenate([*chunks, embedder.flush()])


def cut(samples: Samples, seconds: float, seed: int = 0) -> Samples:
    """So much of it, from anywhere."""
    length = round(seconds * RATE_HZ)
    begin = int(np.random.default_rng(seed).integers(max(1, len(samples) - length)))
    return samples[begin : begin + length]


def search(samples: Samples, key: bytes) -> Finding:
    """One window of the detector."""
    return find(features(samples.astype(np.float32) / np.float32(32768)), key)


def robustness(spoken: Sequence[Utterance]) -> dict[tuple[str, int], Tally]:
    """By attack and duration."""
    tallies = {(attack, seconds): Tally() for attack in ATTACKS for seconds in DURATIONS_S}
    for attack, damage in ATTACKS.items():
        print(f"  {attack}", file=sys.stderr)
        for seed, one in enumerate(spoken):
            damaged = damage(one.marked)
            for seconds in DURATIONS_S:
                if len(damaged) >= seconds * RATE_HZ:
                    found = search(cut(damaged, seconds, seed), KEY)
                    tallies[attack, seconds].add(found, one.payload)
    return tallies


def unmarked_pieces(spoken: Sequence[Utterance], minutes: float) -> Iterator[Samples]:
    """Pieces of 5 s: people's speech; then the voice and other sound in turns."""
    length = 5 * RATE_HZ
    left = round(minutes * 60 / 5)
    for clip in load_clips():
        sound = resample_whole(clip.samples, 16_000, RATE_HZ)
        for begin in range(0, len(sound) - length // 2, length):
            yield sound[begin : begin + length]
            left -= 1
    voice = np.concatenate([one.plain for one in spoken])
    random = np.random.default_rng(2)
    for number in range(max(left, 0)):
        begin = number // 2 * length
        if number % 2 and begin + length <= len(voice):
            yield voice[begin : begin + length]
        else:
            yield _other_sound(random, length)


def _other_sound(random: np.random.Generator, length: int) -> Samples:
    """Noise of any colour that comes and goes, or chords of any instrument."""
    at = np.arange(length) / RATE_HZ
    if random.random() < 0.5:
        spectrum = np.fft.rfft(random.standard_normal(length))
        spectrum *= np.maximum(np.arange(len(spectrum)), 1.0) ** -random.uniform(0.0, 1.0)
        sound = np.fft.irfft(spectrum, length)
        sound *= 1 + 0.8 * np.sin(2 * np.pi * random.uniform(0.3, 8.0) * at)
    else:
        sound = np.zeros(length)
        for begin in np.arange(0, 5, random.uniform(0.15, 0.6)):
            for _ in range(3):
                hz = 110 * 2 ** (random.integers(0, 36) / 12)
                note = sawtooth(2 * np.pi * hz * at, random.uniform(0.0, 1.0))
                sound += note * np.exp(-3 * np.maximum(at - begin, 0)) * (at >= begin)
    scaled = np.rint(sound / np.abs(sound).max() * 12_000)
    return np.asarray(scaled, np.int16)


def chance(p_values: Sequence[float]) -> dict[str, float | int]:
    """How p-values of what is not marked lie. uniform: what Kolmogorov and Smirnov say to that."""
    below = {
        f"below {limit:g}": float(np.mean(np.array(p_values) < limit)) for limit in (0.1, 0.01)
    }
    return {
        "pieces of 5 s": len(p_values),
        "flagged": sum(p_value < THRESHOLD for p_value in p_values),
        "least": float(min(p_values)),
        "uniform": round(float(kstest(p_values, "uniform").pvalue), 3),
        **below,
    }


def quality(spoken: Sequence[Utterance]) -> dict[str, Any]:
    """What the mark costs the ear, and the processor."""
    told: dict[str, Any] = {}
    ratios = np.concatenate([segmental_ratios_db(one.plain, one.marked) for one in spoken])
    told["segmental SNR"] = f"median {np.median(ratios):.1f} dB"
    try:
        from pesq import pesq
    except ImportError:
        told["PESQ"] = "not measured: pip install pesq"
    else:
        scores = [
            pesq(PESQ_HZ, *(_for_pesq(one.plain), _for_pesq(one.marked)), "wb") for one in spoken
        ]
        median, low = np.percentile(scores, [50, 5])
        told["PESQ"] = f"median {median:.2f}, 5th percentile {low:.2f}, least {min(scores):.2f}"
    begun_s = time.process_time()
    for one in spoken[:20]:
        marked(one.plain, one.payload)
    seconds = sum(len(one.plain) for one in spoken[:20]) / RATE_HZ
    share = (time.process_time() - begun_s) / seconds
    told["cost"] = f"{share:.3%} of a core for each stream"
    return told


def _for_pesq(samples: Samples) -> Samples:
    return resample_whole(samples[: PESQ_S * RATE_HZ], RATE_HZ, PESQ_HZ)


def segmental_ratios_db(plain: Samples, changed: Samples) -> NDArray[np.float64]:
    """Of each segment with speech in it: its energy to that of the change."""
    count = len(plain) // SEGMENT
    speech = plain[: count * SEGMENT].astype(float).reshape(count, SEGMENT)
    change = changed[: count * SEGMENT].astype(float).reshape(count, SEGMENT) - speech
    energy, error = (speech**2).sum(axis=1), (change**2).sum(axis=1)
    loud = energy > energy.max() * 1e-4
    ratios: NDArray[np.float64] = 10 * np.log10(energy[loud] / np.maximum(error[loud], 1e-9))
    return ratios


async def intelligibility(engine: Engine, spoken: Sequence[Utterance]) -> dict[str, str]:
    """Word error rates of the embedded Transcriber."""
    try:
        from bench.understanding import word_error_rate
    except ImportError:
        return {"words": "not measured: pip install 'sori[dev]'"}
    texts = [one.text for one in spoken]
    rates = {}
    for name in ("plain", "marked"):
        heard = [
            await _hear(engine, getattr(one, name), f"{name}-{n}") for n, one in enumerate(spoken)
        ]
        rates[name] = word_error_rate(texts, heard)
    return {"words": f"error rate {rates['plain']:.2%} unmarked, {rates['marked']:.2%} marked"}


async def _hear(engine: Engine, samples: Samples, request_id: str) -> str:
    text = ""
    sound = resample_whole(samples, RATE_HZ, 16_000)
    start = Start(request_id, Plan.TRANSCRIBE)
    async with aclosing(engine.submit(start, sound)) as messages:
        async for message in messages:
            if isinstance(message, TextDelta):
                text += message.text
            elif isinstance(message, End | Failed):
                break
    return text


def robustness_table(tallies: Mapping[tuple[str, int], Tally]) -> list[str]:
    """The share of pieces in which the mark is found, and of these, where it is read right."""
    head = "  ".join(f"{seconds:>3} s: found, read" for seconds in DURATIONS_S)
    lines = [f"{'':16}  {head}"]
    for attack in ATTACKS:
        cells = []
        for seconds in DURATIONS_S:
            tally = tallies[attack, seconds]
            if tally.tried:
                read = f"{tally.read / tally.detected:>5.0%}" if tally.detected else "    -"
                cells.append(f"{tally.detected / tally.tried:>11.0%} {read:>6}")
            else:
                cells.append(" " * 16 + "-")
        lines.append(f"{attack:16}  " + "  ".join(cells))
    return lines
