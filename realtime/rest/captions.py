"""Transcripts with times: segments of a few seconds, and subtitles made of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from realtime.rest.recordings import Heard

LONGEST_S = 7.0
"""A subtitle stands no longer; it ends earlier with a sentence or before a pause."""

PAUSE_S = 1.0

_ABBREVIATIONS = frozenset({"mr.", "mrs.", "ms.", "dr.", "st.", "prof.", "vs.", "etc.", "no."})


@dataclass(frozen=True, slots=True)
class Word:
    """start_s, end_s: in the recording."""

    text: str
    start_s: float
    end_s: float

    def json(self) -> dict[str, Any]:
        """As in `verbose_json`."""
        return {"word": self.text, "start": round(self.start_s, 3), "end": round(self.end_s, 3)}


@dataclass(frozen=True, slots=True)
class Segment:
    """A line of the transcript. heard: the window that it is from."""

    text: str
    start_s: float
    end_s: float
    heard: Heard

    def json(self, index: int) -> dict[str, Any]:
        """As in `verbose_json`. Token ids are not told: they are the model's own affair."""
        data = self.text.encode()
        return {
            "id": index,
            "seek": round(self.heard.start_s * 100),
            "start": round(self.start_s, 3),
            "end": round(self.end_s, 3),
            "text": " " + self.text,
            "tokens": [],
            "temperature": 0.0,
            "avg_logprob": self.heard.meta.get("avg_logprob", 0.0),
            "compression_ratio": len(data) / max(len(zlib.compress(data)), 1),
            "no_speech_prob": self.heard.meta.get("no_speech_prob", 0.0),
        }


def words_of(heard: Heard) -> list[Word]:
    """The words of a window, if it has any; without times of their own they share its time."""
    if not heard.text:
        return []
    if timed := heard.meta.get("words"):
        return [
            Word(text, heard.start_s + start, heard.start_s + end) for text, start, end in timed
        ]
    texts = heard.text.split()
    step_s = (heard.end_s - heard.start_s) / len(texts)
    return [
        Word(text, heard.start_s + at * step_s, heard.start_s + (at + 1) * step_s)
        for at, text in enumerate(texts)
    ]


def segments_of(heard: Heard) -> Iterator[Segment]:
    """The lines of a window."""
    line: list[Word] = []
    for word in words_of(heard):
        if line and _is_complete(line, word):
            yield _segment(line, heard)
            line = []
        line.append(word)
    if line:
        yield _segment(line, heard)


def _is_complete(line: Sequence[Word], following: Word) -> bool:
    too_long = following.end_s - line[0].start_s > LONGEST_S
    pause = following.start_s - line[-1].end_s > PAUSE_S
    last = line[-1].text
    sentence = last.endswith((".", "?", "!")) and last.lower() not in _ABBREVIATIONS
    return too_long or pause or sentence


def _segment(line: Sequence[Word], heard: Heard) -> Segment:
    text = " ".join(word.text for word in line)
    return Segment(text, line[0].start_s, line[-1].end_s, heard)


def srt(segments: Iterable[Segment]) -> str:
    """SubRip."""
    return "".join(
        f"{number}\n{_clock(one.start_s, ',')} --> {_clock(one.end_s, ',')}\n{one.text}\n\n"
        for number, one in enumerate(segments, 1)
    )


def vtt(segments: Iterable[Segment]) -> str:
    """WebVTT."""
    lines = (
        f"{_clock(one.start_s, '.')} --> {_clock(one.end_s, '.')}\n{one.text}\n\n"
        for one in segments
    )
    return "WEBVTT\n\n" + "".join(lines)


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
