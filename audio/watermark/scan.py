"""Finds marked stretches in a recording of any length, in bounded memory.

Windows of 10 s find weak marks, windows of 4 s short ones. Each is searched by itself, since a
recording may be cut together from pieces whose periods do not fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audio.watermark.detector import Finding, find
from audio.watermark.features import features
from audio.watermark.grid import RATE_HZ

THRESHOLD = 1e-6
WINDOWS_S = (10.0, 4.0)
LEAST_S = 1.0
"""What is left over at the end of a recording is searched if it is as long as this."""


@dataclass(frozen=True, slots=True)
class MarkedRange:
    """A stretch with a mark, in seconds; the payload is that of its clearest window."""

    start_s: float
    end_s: float
    p_value: float
    payload: int


@dataclass(frozen=True, slots=True)
class Detection:
    """Of a whole recording. p_value: that chance makes any of its windows look as marked."""

    detected: bool
    p_value: float
    payload: int | None
    speed: float | None
    ranges: tuple[MarkedRange, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class _Window:
    start_s: float
    end_s: float
    finding: Finding


def detect(
    blocks: Iterable[NDArray[np.int16]], key: bytes, threshold: float = THRESHOLD
) -> Detection:
    """Search 24 kHz mono int16, given in blocks of any length.

    threshold: of the p-value of the whole recording. Raises ValueError for an empty key, and what
    the iterator raises.
    """
    scanners = [_Scanner(key, seconds) for seconds in WINDOWS_S]
    samples = 0
    for block in blocks:
        samples += len(block)
        for scanner in scanners:
            scanner.feed(block)
    windows = [window for scanner in scanners for window in scanner.finish()]
    return _judge(windows, threshold, samples / RATE_HZ)


def _judge(windows: Sequence[_Window], threshold: float, seconds: float) -> Detection:
    count = len(windows)
    marked = [one for one in windows if _of_any(one.finding.p_value, count) < threshold]
    p_value = min((_of_any(one.finding.p_value, count) for one in windows), default=1.0)
    ranges = _merge(_finest(marked), count)
    best = min(marked, key=lambda one: one.finding.p_value, default=None)
    return Detection(
        detected=best is not None,
        p_value=p_value,
        payload=best.finding.payload if best else None,
        speed=best.finding.speed if best else None,
        ranges=ranges,
        seconds=seconds,
    )


def _of_any(p_value: float, count: int) -> float:
    """Sidak's correction: that the least of so many p-values is as small as this."""
    return -math.expm1(count * math.log1p(-p_value)) if p_value < 1.0 else 1.0


def _finest(marked: Sequence[_Window]) -> list[_Window]:
    """Without the long windows that short ones within them explain."""
    return [
        one
        for one in marked
        if not any(
            one.start_s <= other.start_s
            and other.end_s <= one.end_s
            and other.end_s - other.start_s < one.end_s - one.start_s
            for other in marked
        )
    ]


def _merge(windows: Sequence[_Window], count: int) -> tuple[MarkedRange, ...]:
    """Windows that overlap and say the same are one range."""
    ranges: list[MarkedRange] = []
    for window in sorted(windows, key=lambda one: one.start_s):
        p_value, payload = _of_any(window.finding.p_value, count), window.finding.payload
        last = ranges[-1] if ranges else None
        if last is not None and window.start_s <= last.end_s and payload == last.payload:
            end_s, least = max(last.end_s, window.end_s), min(last.p_value, p_value)
            ranges[-1] = MarkedRange(last.start_s, end_s, least, payload)
        else:
            ranges.append(MarkedRange(window.start_s, window.end_s, p_value, payload))
    return tuple(ranges)


class _Scanner:
    """Windows of one length, each begun half a window after the one before."""

    def __init__(self, key: bytes, seconds: float) -> None:
        self._key = key
        self._length = round(seconds * RATE_HZ)
        self._held = np.zeros(0, np.int16)
        self._begin = 0  # sample at which what is held begins
        self._windows: list[_Window] = []

    def feed(self, block: NDArray[np.int16]) -> None:
        self._held = np.concatenate([self._held, block])
        while len(self._held) > self._length:
            self._search(self._held[: self._length])
            self._begin += self._length // 2
            self._held = self._held[self._length // 2 :]

    def finish(self) -> list[_Window]:
        """All windows; the last may be shorter than the others."""
        if len(self._held) >= LEAST_S * RATE_HZ or not self._windows:
            self._search(self._held)
        return self._windows

    def _search(self, samples: NDArray[np.int16]) -> None:
        finding = find(features(samples.astype(np.float32) / np.float32(32768)), self._key)
        start_s = self._begin / RATE_HZ
        self._windows.append(_Window(start_s, start_s + len(samples) / RATE_HZ, finding))
