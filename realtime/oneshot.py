"""`sori say` and `sori transcribe`: one request through an engine with only the stages it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from audio.containers import ContainerError, load_audio, write_wav
from pipeline.engine import Engine
from pipeline.messages import (
    INPUT_RATE_HZ,
    OUTPUT_RATE_HZ,
    Audio,
    Failed,
    PipelineMessage,
    Plan,
    PromptItem,
    Start,
    TextDelta,
)
from realtime.config import Config

SPEAKING = ("talker", "voicebox")
HEARING = ("transcriber",)
WINDOW_S = 28
"""Longest stretch transcribed at once: Whisper's window is 30 s."""


class OneShotError(Exception):
    """The request could not be done. The message says why."""


def say(config: Config, text: str, path: Path, *, voice: str, speed: float) -> None:
    """Speak the text into a WAV file. Raises OneShotError, EngineError."""
    if not text.strip():
        raise OneShotError("there is nothing to say: the text is empty")
    if not path.parent.is_dir():
        raise OneShotError(f"{path.parent}: no such folder")
    start = Start(
        "say",
        Plan.TTS,
        items=(PromptItem("assistant", text),),
        voice=voice,
        speed=speed,
        latency_first=False,
    )
    messages = asyncio.run(_run(config, SPEAKING, [(start, None)]))
    blocks = (np.frombuffer(m.pcm, np.int16) for m in messages if isinstance(m, Audio))
    try:
        write_wav(path, blocks, OUTPUT_RATE_HZ)
    except ContainerError as error:
        raise OneShotError(f"{path}: {error}") from error


def transcribe(config: Config, path: Path, *, language: str | None) -> str:
    """What is said in the recording. Raises OneShotError, EngineError."""
    if not path.is_file():
        raise OneShotError(f"{path}: no such file")
    try:
        samples = load_audio(path, INPUT_RATE_HZ)
    except ContainerError as error:
        raise OneShotError(f"{path}: not a recording that can be read: {error}") from error
    window = WINDOW_S * INPUT_RATE_HZ
    start = Start("", Plan.TRANSCRIBE, language=language)
    requests = [
        (replace(start, request_id=f"transcribe-{first}"), samples[first : first + window])
        for first in range(0, len(samples), window)
    ]
    messages = asyncio.run(_run(config, HEARING, requests))
    texts = [message.text for message in messages if isinstance(message, TextDelta)]
    return " ".join("".join(texts).split())


async def _run(
    config: Config,
    stages: tuple[str, ...],
    requests: Sequence[tuple[Start, NDArray[np.int16] | None]],
) -> list[PipelineMessage]:
    """One request after the other through a fresh engine."""
    engine = Engine(config)
    gathered: list[PipelineMessage] = []
    try:
        await engine.start(stages)
        for start, audio in requests:
            async with aclosing(engine.submit(start, audio)) as messages:
                async for message in messages:
                    if isinstance(message, Failed):
                        raise OneShotError(message.message)
                    gathered.append(message)
    finally:
        await engine.shutdown()
    return gathered
