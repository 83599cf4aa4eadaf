"""Recordings that come with a request: decoded within bounds, and transcribed."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.containers import ContainerError, read_audio
from audio.resample import resample_whole
from pipeline.engine import Engine
from pipeline.messages import (
    INPUT_RATE_HZ,
    OUTPUT_RATE_HZ,
    End,
    Failed,
    Plan,
    Start,
    TextDelta,
    TokenLogprob,
)
from realtime.invented import is_invented
from realtime.rest.errors import ApiError, bad_request
from realtime.rest.work import api_error

WINDOW_SAMPLES = 14 * INPUT_RATE_HZ
"""Longest stretch given to the Transcriber at once, since others wait for it."""

CUT_SAMPLES = 4 * INPUT_RATE_HZ
"""A window ends at the quietest moment of its last seconds, so that no word is cut."""

_DATA_URL = re.compile(r"^data:[^,]{0,200};base64,")
_SPACE = re.compile(r"\s+")


def decode_recording(data: str, kind: str, max_s: float, param: str) -> NDArray[np.int16]:
    """16 kHz mono samples of a Base64 text. Raises ApiError naming `param`. Call it in a thread."""
    try:
        text = _SPACE.sub("", _DATA_URL.sub("", data))
        content = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise bad_request(f"Invalid '{param}': it is not Base64 ({error}).", param) from error
    if not content:
        raise bad_request(f"Invalid '{param}': there is no audio in it.", param)
    if kind == "pcm16":
        if len(content) % 2:
            raise bad_request(f"Invalid '{param}': 16-bit samples need an even length.", param)
        samples = np.frombuffer(content, "<i2")
        blocks = iter([resample_whole(samples, OUTPUT_RATE_HZ, INPUT_RATE_HZ)])
    else:
        blocks = read_audio(content, INPUT_RATE_HZ)
    kept: list[NDArray[np.int16]] = []
    room = int(max_s * INPUT_RATE_HZ)
    try:
        for block in blocks:
            room -= len(block)
            if room < 0:
                raise bad_request(
                    f"Invalid '{param}': at most {max_s:g} s of audio are taken.", param
                )
            kept.append(block)
    except ContainerError as error:
        raise unreadable(param) from error
    if not kept:
        raise bad_request(f"Invalid '{param}': there is no audio in it.", param)
    return np.concatenate(kept)


def unreadable(param: str) -> ApiError:
    """Bytes that no decoder takes."""
    message = "The audio file could not be decoded or its format is not supported."
    return bad_request(message, param)


@dataclass(frozen=True, slots=True)
class Heard:
    """A window's transcript. start_s, end_s: where it lies. meta: of the Transcriber's End.

    logprobs: of its tokens, if the Transcriber was asked for them.
    """

    text: str
    start_s: float
    end_s: float
    meta: dict[str, Any]
    logprobs: tuple[TokenLogprob, ...] = ()


async def hear(
    engine: Engine, samples: NDArray[np.int16], start: Start, offset_s: float = 0.0
) -> Heard:
    """Transcribe one window. Raises ApiError."""
    text = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    end_s = offset_s + len(samples) / INPUT_RATE_HZ
    async with aclosing(engine.submit(start, samples)) as messages:
        async for message in messages:
            match message:
                case TextDelta(text=piece, logprobs=told):
                    text += piece
                    logprobs += told
                case Failed():
                    raise api_error(message)
                case End(meta=meta):
                    if is_invented(text, meta):
                        return Heard("", offset_s, end_s, dict(meta))
                    return Heard(text.strip(), offset_s, end_s, dict(meta), logprobs)
    raise RuntimeError("the Transcriber's answer had no end")


async def hear_all(
    engine: Engine, windows: Iterator[NDArray[np.int16]], request_id: str, **hints: Any
) -> AsyncGenerator[Heard]:
    """Window after window, each taken in a thread when its turn comes.

    hints: fields of `Start` for the Transcriber. Raises what the iterator raises, and ApiError.
    """
    offset_s = 0.0
    while (window := await asyncio.to_thread(next, windows, None)) is not None:
        start = Start(f"{request_id}-{offset_s:.2f}", Plan.TRANSCRIBE, background=True, **hints)
        yield await hear(engine, window, start, offset_s)
        offset_s += len(window) / INPUT_RATE_HZ


def windows_of(blocks: Iterable[NDArray[np.int16]]) -> Iterator[NDArray[np.int16]]:
    """Stretches for the Transcriber out of blocks of any length, cut at quiet moments.

    No more than a window and a block is held.
    """
    held = np.zeros(0, np.int16)
    for block in blocks:
        held = np.concatenate([held, block])
        while len(held) > WINDOW_SAMPLES:
            end = _quiet_moment(held)
            yield held[:end]
            held = held[end:]
    if len(held):
        yield held


def _quiet_moment(samples: NDArray[np.int16]) -> int:
    """Where to cut a window off, in its last seconds."""
    tail = samples[WINDOW_SAMPLES - CUT_SAMPLES : WINDOW_SAMPLES].astype(np.float32)
    frame = INPUT_RATE_HZ // 10
    loudness = (tail.reshape(-1, frame) ** 2).mean(axis=1)
    return WINDOW_SAMPLES - CUT_SAMPLES + int(np.argmin(loudness)) * frame + frame // 2
