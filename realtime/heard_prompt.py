"""Recordings in a prompt, made ready for a Thinker that hears."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from audio.formats import AudioFormat
from pipeline.messages import RECORDING, PromptItem, Start
from realtime.commands import Recording
from realtime.transcoding import MicrophoneDecoder

OFF_LOOP_BYTES = 256 * 1024
"""More than this is decoded in a thread."""


async def with_recordings(
    start: Start, recordings: Sequence[Recording]
) -> tuple[Start, NDArray[np.int16] | None]:
    """The request with the length of each recording, and all of them, one after the other.

    Raises CodecError.
    """
    if not recordings:
        return start, None
    if sum(len(one.data) for one in recordings) > OFF_LOOP_BYTES:
        decoded = await asyncio.to_thread(_decode, recordings)
    else:
        decoded = _decode(recordings)
    lengths = iter([len(samples) for samples in decoded])
    items = tuple(_with_lengths(item, lengths) for item in start.items)
    return replace(start, items=items), np.concatenate(decoded)


def _decode(recordings: Sequence[Recording]) -> list[NDArray[np.int16]]:
    return [
        MicrophoneDecoder(AudioFormat(one.format, one.rate_hz)).decode(one.data)
        for one in recordings
    ]


def _with_lengths(item: PromptItem, lengths: Iterator[int]) -> PromptItem:
    count = item.text.count(RECORDING)
    if not count:
        return item
    return replace(item, recordings=tuple(next(lengths) for _ in range(count)))
