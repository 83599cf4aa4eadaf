"""`sori bench noises`: what nobody said. Does it get an answer, and does a reply survive it?

Coughs, clicks, keys, breath, hum, music, noise and silence, made from formulas with a seed, so that
everybody measures the same. First each is heard by a session at rest: any response is an error.
Then each comes in the middle of a reply, to a client that keeps its buffer: the reply is to go on.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, lfilter

from bench.client import Gone, Late, RealtimeClient, open_client
from bench.clips import CLIP_RATE_HZ
from bench.machine import describe_machine
from bench.report import print_report
from bench.server import ServerError, end_on_sigterm, start_server

Floats = NDArray[np.float64]
Maker = Callable[[np.random.Generator], Floats]

TAIL_S = 2.5
"""Silence after a noise, in which a wrong answer would begin."""

REQUEST = "Explain in five long sentences how bread is made."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark. Returns the exit code: 1 if nothing could run."""
    arguments = build_parser().parse_args(argv)
    try:
        end_on_sigterm()
        print("starting a server …", file=sys.stderr)
        with start_server(arguments.config) as server:
            cases = make_cases(arguments.seeds)
            answered = asyncio.run(at_rest(server.realtime_url, cases))
            ended = asyncio.run(in_reply(server.realtime_url, cases))
    except (ServerError, OSError, Late, Gone) as error:
        print(f"sori bench noises: {error}", file=sys.stderr)
        return 1
    print_report(
        [
            f"{len(cases)} noises",
            f"at rest: {len(answered)} answered {answered}",
            f"in a reply: {len(ended)} ended it {ended}",
        ],
        {
            "bench": "noises",
            "machine": describe_machine(),
            "cases": len(cases),
            "answered": answered,
            "ended_a_reply": ended,
        },
    )
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The options of `sori bench noises`."""
    parser = argparse.ArgumentParser(prog="sori bench noises", description=__doc__)
    parser.add_argument("--config", type=Path, help="configuration of the server")
    parser.add_argument("--seeds", type=int, default=3, help="variants of each noise")
    return parser


# -- noises: float64 at 16 kHz, within -1 to 1 -----------------------------------------------------


def _decay(samples: int, attack_s: float, decay_s: float) -> Floats:
    t = np.arange(samples) / CLIP_RATE_HZ
    envelope: Floats = (1 - np.exp(-t / attack_s)) * np.exp(-t / decay_s)
    return envelope


def _band(samples: Floats, low_hz: float, high_hz: float) -> Floats:
    b, a = butter(2, [low_hz, high_hz], "band", fs=CLIP_RATE_HZ)
    filtered: Floats = lfilter(b, a, samples)
    return filtered


def _white(random: np.random.Generator, seconds: float) -> Floats:
    return random.normal(0, 1, int(seconds * CLIP_RATE_HZ))


def cough(random: np.random.Generator) -> Floats:
    """One or two bursts with a little voice in them."""
    bursts = []
    for _ in range(random.integers(1, 3)):
        noise = _white(random, random.uniform(0.2, 0.35))
        burst = _band(noise, 300, random.uniform(2500, 5000)) * _decay(len(noise), 0.004, 0.07)
        t = np.arange(len(noise)) / CLIP_RATE_HZ
        buzz = np.sign(np.sin(2 * np.pi * random.uniform(120, 200) * t))
        burst += 0.15 * buzz * _decay(len(noise), 0.03, 0.05)
        bursts += [burst, np.zeros(CLIP_RATE_HZ // 8)]
    whole = np.concatenate(bursts)
    peak = float(np.abs(whole).max())
    return np.asarray(whole * (0.5 / peak))


def click(random: np.random.Generator) -> Floats:
    """200 ms, most of it at its beginning."""
    noise = _white(random, 0.2)
    return noise * _decay(len(noise), 0.001, 0.01) * 0.5


def keys(random: np.random.Generator) -> Floats:
    """Three seconds of typing."""
    typed = np.zeros(3 * CLIP_RATE_HZ)
    for at_s in np.cumsum(random.uniform(0.08, 0.3, 9)):
        stroke = _band(_white(random, 0.05), 1000, 5000)
        start = int(at_s * CLIP_RATE_HZ)
        typed[start : start + len(stroke)] += (
            stroke * _decay(len(stroke), 0.001, 0.008) * random.uniform(0.1, 0.4)
        )
    return typed


def music(random: np.random.Generator) -> Floats:
    """Sixteen plucked notes."""
    played = np.zeros(6 * CLIP_RATE_HZ)
    for note in range(16):
        t = np.arange(CLIP_RATE_HZ // 2) / CLIP_RATE_HZ
        pitch_hz = 220 * 2 ** (random.integers(0, 24) / 12)
        tone = np.sum([np.sin(2 * np.pi * pitch_hz * h * t) / h for h in (1, 2, 3, 4)], axis=0)
        start = int(note * 0.3 * CLIP_RATE_HZ)
        played[start : start + len(t)] += tone * _decay(len(t), 0.01, 0.25) * 0.15
    return played


def breath(random: np.random.Generator) -> Floats:
    """In and out."""
    noise = _white(random, 1.0)
    return _band(noise, 400, 3000) * np.hanning(len(noise)) * 0.1


def sneeze(random: np.random.Generator) -> Floats:
    """Half a second."""
    noise = _white(random, 0.5)
    return _band(noise, 200, 6000) * _decay(len(noise), 0.02, 0.15) * 0.5


def steady_noise(random: np.random.Generator) -> Floats:
    """Four seconds at -30 dBFS."""
    return _white(random, 4.0) * 10 ** (-30 / 20)


def hum(random: np.random.Generator) -> Floats:
    """Mains."""
    t = np.arange(4 * CLIP_RATE_HZ) / CLIP_RATE_HZ
    mains_hz = random.choice([50, 60])
    mains = 0.05 * np.sin(2 * np.pi * mains_hz * t) + 0.03 * np.sin(6 * np.pi * mains_hz * t)
    return np.asarray(mains)


def knocks(random: np.random.Generator) -> Floats:
    """Four on a door."""
    heard = np.zeros(2 * CLIP_RATE_HZ)
    for knock in range(4):
        thud = _band(_white(random, 0.12), 80, 600)
        start = int((0.1 + knock * random.uniform(0.25, 0.4)) * CLIP_RATE_HZ)
        heard[start : start + len(thud)] += thud * _decay(len(thud), 0.002, 0.025) * 0.8
    return heard


def silence(random: np.random.Generator) -> Floats:
    """A minute of a quiet room."""
    return _white(random, 60.0) * 3e-4


NOISES: Mapping[str, Maker] = {
    maker.__name__: maker
    for maker in (
        cough, click, keys, music, breath, sneeze, steady_noise, hum, knocks, silence,
    )
}  # fmt: skip


def make_cases(seeds: int) -> dict[str, NDArray[np.int16]]:
    """Variants of every noise, by name; the minute of silence once."""
    cases = {}
    for name, maker in NOISES.items():
        for seed in range(seeds if maker is not silence else 1):
            samples = np.clip(maker(np.random.default_rng(seed)), -1, 1) * 32767
            cases[f"{name}-{seed}"] = samples.astype(np.int16)
    return cases


# -- measuring -------------------------------------------------------------------------------------


async def at_rest(url: str, cases: Mapping[str, NDArray[np.int16]]) -> list[str]:
    """Names of the noises that got a response. All in one session, as in a room."""
    answered: list[str] = []
    async with open_client(url) as client:
        client.switch_on()
        for name, samples in cases.items():
            since = len(client.events)
            await _play(client, samples)
            await asyncio.sleep(TAIL_S)
            if any(got.type == "response.created" for got in client.events[since:]):
                answered.append(name)
            print(f"  {name:16} {_types(client, since)}", file=sys.stderr)
    return answered


async def in_reply(url: str, cases: Mapping[str, NDArray[np.int16]]) -> list[str]:
    """Names of the noises that ended a reply. Each in a session of its own."""
    ended: list[str] = []
    session = {"audio": {"output": {"keeps_buffer": True}}}
    for name, samples in cases.items():
        if len(samples) > 10 * CLIP_RATE_HZ:
            continue
        async with open_client(url, session=session) as client:
            client.switch_on()
            content = [{"type": "input_text", "text": REQUEST}]
            message = {"type": "message", "role": "user", "content": content}
            await client.send({"type": "conversation.item.create", "item": message})
            await client.send({"type": "response.create"})
            await client.wait_for("response.output_audio.delta", 20.0)
            since = len(client.events)
            await _play(client, samples)
            done = (await client.wait_for("response.done", 60.0)).event["response"]
            if done["status"] == "cancelled":
                ended.append(name)
            print(f"  {name:16} {done['status']:9} {_types(client, since)}", file=sys.stderr)
    return ended


async def _play(client: RealtimeClient, samples: NDArray[np.int16]) -> None:
    client.queue_speech(client.wire.from_clip(samples))
    await asyncio.sleep(len(samples) / CLIP_RATE_HZ)


def _types(client: RealtimeClient, since: int) -> str:
    """What the server said of speech."""
    told = [got.type.rpartition(".")[2] for got in client.events[since:] if "speech" in got.type]
    return " ".join(told)
