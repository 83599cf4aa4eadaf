"""The embedded Talker: text in, acoustic frames and exact word alignment out.

Text is cut into clauses, put in spoken form and run through hibari's network. The network's own
silence is cut off and replaced by pauses that fit the punctuation.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.clauses import ClauseSplitter, Join, Piece
from pipeline.messages import Condition, End, Frames, Start
from pipeline.spoken import SpokenForm, SpokenWord
from pipeline.stage import Batch, Input, Output, Stage, StageSettings
from pipeline.stages.hibari_dsp import LOOK_AHEAD, silent_frames
from pipeline.stages.hibari_network import HibariNetwork, Utterance

__all__ = ["HibariTalker"]

PAYLOAD_FRAMES = 80
"""Frames in one payload: a second, and exactly one slot of the pool."""

FIRST_PAYLOAD_FRAMES = 16
"""Just enough for the VoiceBox's first chunk of a latency-first reply."""

PAUSE_FRAMES = {Join.NONE: 4, Join.COMMA: 14, Join.SENTENCE: 28}
"""Silent frames between two pieces, at speed 1. The edges of the sound add about 30 ms."""

TAIL_FRAMES = LOOK_AHEAD
"""Silent frames right after a piece, so that the VoiceBox can finish it without waiting for the
next. The rest of a pause comes in front of the next piece: a reply does not end in silence."""

_WARM_UP = (
    "Hello there.",
    "This is a somewhat longer sentence, with 42 words or so, to get every shqipe buffer ready.",
)


@dataclass(slots=True)
class _Reply:
    """One request: text waiting to be spoken, and frames waiting to be sent."""

    splitter: ClauseSplitter
    speed: float
    first_payload: int
    form: SpokenForm = field(default_factory=SpokenForm)
    pieces: deque[Piece] = field(default_factory=deque)
    payloads: deque[tuple[Frames, NDArray[np.float32]]] = field(default_factory=deque)
    frames: int = 0  # frames cut into payloads so far
    pause: int = 0  # silent frames still due before the next piece
    ended: bool = False

    @property
    def speakable(self) -> bool:
        return bool(self.pieces) and not self.payloads

    @property
    def finished(self) -> bool:
        return self.ended and not self.pieces and not self.payloads


class HibariTalker(Stage):
    """Frames are rows of FRAME_WIDTH values (see `hibari_dsp`).

    Their meta: `f0_median_hz` of the clause; `clause_end` on the last payload of a clause, after
    which the next may take a while.

    options: `model`, the path of another graph with the durations as an extra output.
    """

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._network: HibariNetwork | None = None
        self._replies: dict[str, _Reply] = {}

    def load(self) -> None:
        """Load the network and speak twice, so that nothing is done for the first time later."""
        self._network = HibariNetwork(_find_model(self._settings), self._settings.threads)
        for text in _WARM_UP:
            self._network.utter(SpokenForm().rewrite(text, 0), 1.0)

    def open(self, start: Start) -> None:
        """Begin a reply."""
        self._replies[start.request_id] = _Reply(
            ClauseSplitter(start.latency_first),
            min(max(start.speed, 0.25), 4.0),
            FIRST_PAYLOAD_FRAMES if start.latency_first else PAYLOAD_FRAMES,
        )

    def close(self, request_id: str) -> None:
        """Drop a reply."""
        self._replies.pop(request_id, None)

    def step(self, batch: Batch) -> list[Output]:
        """At most one clause is synthesised, and one payload sent of each reply.

        Replies that nothing has been heard of yet go first.
        """
        for work in batch:
            self._take_in(self._replies[work.request_id], work.inputs)
        waiting = [self._replies[work.request_id] for work in batch]
        waiting = [reply for reply in waiting if reply.speakable]
        if waiting:
            self._speak(min(waiting, key=lambda reply: reply.frames))
        outputs = []
        for work in batch:
            reply = self._replies[work.request_id]
            if reply.payloads:
                message, array = reply.payloads.popleft()
                outputs.append(Output(work.request_id, message, array))
            if reply.finished:
                outputs.append(Output(work.request_id, End()))
            work.more = bool(reply.payloads or reply.pieces)
        return outputs

    def _take_in(self, reply: _Reply, inputs: list[Input]) -> None:
        for given in inputs:
            match given.message:
                case Condition(kind="text", text=text):
                    reply.pieces.extend(reply.splitter.feed(text))
                case End():
                    reply.pieces.extend(reply.splitter.flush())
                    reply.ended = True
                case _:
                    pass

    def _speak(self, reply: _Reply) -> None:
        """Synthesise the next piece that has anything to say."""
        assert self._network is not None, "load() comes first"
        while reply.pieces and not reply.payloads:
            piece = reply.pieces.popleft()
            words = reply.form.rewrite(piece.text, piece.char_start)
            parts = self._network.utter(words, reply.speed) if words else []
            for i, part in enumerate(parts):
                join = piece.join if i + 1 == len(parts) else _join_inside(words, part)
                self._cut(reply, part, join)

    def _cut(self, reply: _Reply, part: Utterance, join: Join) -> None:
        """Cut an utterance and its pauses into payloads."""
        lead = reply.pause
        frames = np.concatenate([silent_frames(lead), part.frames, silent_frames(TAIL_FRAMES)])
        scale = min(max(1 / reply.speed, 0.5), 2.0)
        reply.pause = max(0, round(PAUSE_FRAMES[join] * scale) - TAIL_FRAMES)
        base = reply.frames + lead
        words = [(first, last, base + end) for first, last, end in part.words]
        at = 0
        while at < len(frames):
            size = reply.first_payload if reply.frames == 0 else PAYLOAD_FRAMES
            block = frames[at : at + size]
            at += len(block)
            reply.frames += len(block)
            inside = tuple(word for word in words if word[2] <= reply.frames)
            words = words[len(inside) :]
            meta = {"f0_median_hz": part.f0_median_hz, "clause_end": at == len(frames)}
            reply.payloads.append((Frames(meta=meta, alignment=inside), block))


def _join_inside(words: list[SpokenWord], part: Utterance) -> Join:
    """The join after a part of a piece that was too long for one utterance."""
    end = part.words[-1][1] if part.words else 0
    last = [word.text for word in words if word.char_end <= end]
    return Join.COMMA if last and last[-1][-1] in ",;:—" else Join.NONE


def _find_model(settings: StageSettings) -> Path:
    if named := settings.options.get("model"):
        return Path(named)
    from pipeline.models.store import resolve

    return Path(resolve(settings.home, "hibari-heart")) / "hibari-durations.onnx"
