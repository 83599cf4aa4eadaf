"""The embedded voice's acoustic network: spoken words in, frames and the time of each word out.

Words go through hibari's grapheme-to-phoneme; the network's own durations, one per phoneme, tell
where each word ends. The silence it puts around every utterance is cut off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import hibari
import numpy as np
from hibari.g2p import G2P
from numpy.typing import NDArray

from pipeline.spoken import SpokenWord
from pipeline.stages.hibari_dsp import BINS, FRAME_WIDTH, frame_power
from pipeline.stages.onnx_session import onnx_session
from pipeline.voices import NETWORK_F0_HZ

__all__ = ["HibariNetwork", "Utterance"]

MAX_PHONEMES = 400
"""The network was trained on utterances up to this long."""

NETWORK_SPEED = (0.4, 1.5)
"""Where the network keeps the pace it is asked for; the rest is done by picking frames."""

_AUDIBLE = 10 ** (-50 / 10)  # mean square of a frame; what is under it at the ends is cut off
_FRAMES_PER_UNIT = 2  # the network counts time in 25 ms

_SILENT_PHONEMES = frozenset(' ;:,.!?—…"()“”')


@dataclass(frozen=True, slots=True)
class Utterance:
    """Frames [n, FRAME_WIDTH] from the first to the last audible one.

    words: (char_start, char_end, frame_end), monotone, frame_end within 1..n.
    f0_median_hz: over the voiced frames.
    """

    frames: NDArray[np.float32]
    words: tuple[tuple[int, int, int], ...]
    f0_median_hz: float


@dataclass(frozen=True, slots=True)
class _Phonemes:
    """Ids with the zero at both ends; owner: index of the word each id belongs to, or -1."""

    ids: list[int]
    owner: list[int]
    silent: list[bool]


class HibariNetwork:
    """One ONNX session and one G2P; not thread safe."""

    def __init__(self, model: Path, threads: int) -> None:
        self._session = onnx_session(model, threads)
        assets = Path(hibari.__file__).parent / "assets"
        self._vocabulary: dict[str, int] = json.loads((assets / "vocab.json").read_text("utf-8"))
        self._g2p = G2P()

    def utter(self, words: list[SpokenWord], speed: float) -> list[Utterance]:
        """Say the words, in one utterance if they fit. Empty if there is nothing to pronounce."""
        phonemes = self._phonemize(words)
        if len(phonemes.ids) > MAX_PHONEMES + 2 and len(words) > 1:
            cut = _best_cut(words)
            return self.utter(words[:cut], speed) + self.utter(words[cut:], speed)
        if all(phonemes.silent):
            return []
        return self._run(words, phonemes, speed)

    def _phonemize(self, words: list[SpokenWord]) -> _Phonemes:
        """Phoneme ids, each with the word it came from."""
        owners = [i for i, word in enumerate(words) for _ in word.text]
        ids, owner, silent = [0], [-1], [True]
        at = 0  # characters of the words read, without spaces
        text = " ".join(word.text for word in words)
        for token in self._g2p.phonemize_tokens(self._g2p.tokenize(text)):
            word = owners[min(at, len(owners) - 1)]
            at += sum(not c.isspace() for c in token.text)
            for character in (token.phonemes or "") + (" " if token.whitespace else ""):
                if character in self._vocabulary:
                    ids.append(self._vocabulary[character])
                    owner.append(word)
                    silent.append(character in _SILENT_PHONEMES)
        while ids[-1] == self._vocabulary[" "]:
            del ids[-1], owner[-1], silent[-1]
        return _Phonemes([*ids, 0], [*owner, -1], [*silent, True])

    def _run(self, words: list[SpokenWord], phonemes: _Phonemes, speed: float) -> list[Utterance]:
        asked = min(max(speed, NETWORK_SPEED[0]), NETWORK_SPEED[1])
        *branches, f0, durations = self._session.run(
            None,
            {
                "ids": np.asarray([phonemes.ids], np.int64),
                "speed": np.asarray([asked], np.float32),
            },
        )
        frames = np.empty((f0.shape[1], FRAME_WIDTH), np.float32)
        for i, branch in enumerate(branches):
            frames[:, i * BINS : (i + 1) * BINS] = branch[0].T
        frames[:, -1] = f0[0]
        voiced, unvoiced = frame_power(frames)
        audible = np.flatnonzero(voiced + unvoiced > _AUDIBLE)
        if not len(audible):
            return []
        first, last = int(audible[0]), int(audible[-1]) + 1
        ends = np.cumsum(durations.reshape(-1)) * _FRAMES_PER_UNIT
        ends *= len(frames) / ends[-1]
        word_ends = _word_ends(phonemes, ends, audible)
        pick = _pick_frames(last - first, speed / asked)
        scale = len(pick) / (last - first)
        spans = []
        reached = 1
        for index, end in word_ends:
            reached = min(max(reached, round((end - first) * scale)), len(pick))
            spans.append((words[index].char_start, words[index].char_end, reached))
        median = _median_f0(frames[first:last, -1], voiced[first:last])
        return [Utterance(frames[first:last][pick], _merge(spans), median)]


def _word_ends(
    phonemes: _Phonemes, ends: NDArray[np.float64], audible: NDArray[np.intp]
) -> list[tuple[int, float]]:
    """(word, frame where it ends) in order; a silence that follows is not part of a word."""
    found: list[tuple[int, float]] = []
    for i, (word, silent) in enumerate(zip(phonemes.owner, phonemes.silent, strict=True)):
        if word < 0 or silent:
            continue
        if found and found[-1][0] == word:
            found.pop()
        found.append((word, float(ends[i])))
    trimmed = []
    for word, end in found:
        before = audible[audible < end]
        sound = float(before[-1]) + 1 if len(before) else end
        trimmed.append((word, sound if end - sound > 2 else end))
    return trimmed


def _pick_frames(count: int, speed: float) -> NDArray[np.intp]:
    """Indices that play `count` frames `speed` times as fast."""
    if speed == 1.0:
        return np.arange(count)
    wanted = max(1, round(count / speed))
    places = np.floor((np.arange(wanted) + 0.5) * (count / wanted))
    return np.asarray(np.minimum(places, count - 1), np.intp)


def _median_f0(f0: NDArray[np.float32], voiced: NDArray[np.float64]) -> float:
    """Median over the frames in which a listener hears a pitch."""
    clear = (f0 > 60) & (voiced > _AUDIBLE * 10)
    return float(np.median(f0[clear])) if clear.sum() >= 3 else NETWORK_F0_HZ


def _merge(spans: list[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """One span per stretch of text: spoken words that share it end with the last of them."""
    merged: list[tuple[int, int, int]] = []
    for span in spans:
        if merged and merged[-1][:2] == span[:2]:
            merged.pop()
        merged.append(span)
    return tuple(merged)


def _best_cut(words: list[SpokenWord]) -> int:
    """Where to part words that are too many for one utterance: a comma near the middle."""
    total = sum(len(word.text) for word in words)
    best, cut, at = float("inf"), 1, 0
    for i, word in enumerate(words[:-1]):
        at += len(word.text)
        cost = abs(at - total / 2) + (0 if word.text[-1] in ",;:—" else total / 4)
        if cost < best:
            best, cut = cost, i + 1
    return cut
