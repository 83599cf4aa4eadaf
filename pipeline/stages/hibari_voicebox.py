"""The embedded VoiceBox: acoustic frames in, watermarked 24 kHz PCM out, one chunk per step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from pipeline.messages import Alignment, Audio, End, Frames, Start
from pipeline.stage import Array, Batch, Input, Output, Stage, StageError, StageSettings, Work
from pipeline.stages.hibari_dsp import FRAME_WIDTH, HOP, FrameSynthesis, silent_frames
from pipeline.voices import NETWORK_F0_HZ, VOICES, resolve_voice

__all__ = ["HibariVoiceBox"]

FIRST_BLOCKS = 10
"""First chunk of a latency-first reply: 125 ms."""

FULL_BLOCKS = 80
"""The largest chunk: one second, one slot of the pool."""

_LEAD_SHARE = 0.5
"""A chunk is at most this share of the audio the listener still has, so it is there in time."""

_BLOCK_MS = 12.5


@dataclass(slots=True)
class _Reply:
    """One request's synthesis, and the words whose audio is still to come."""

    synthesis: FrameSynthesis
    latency_first: bool
    spans: deque[tuple[int, int, int]] = field(default_factory=deque)
    exact: bool = True
    planned: int = FIRST_BLOCKS
    flush: bool = False  # nothing follows soon: give out what can be given
    ended: bool = False


class HibariVoiceBox(Stage):
    """Takes the frames of `HibariTalker`."""

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._replies: dict[str, _Reply] = {}

    def load(self) -> None:
        """Run a first, a steady and a last chunk of both plans."""
        for latency_first in (True, False):
            reply = _Reply(FrameSynthesis(VOICES["cedar"], 0), latency_first)
            self._take_frames(reply, Frames(), silent_frames(3 * FULL_BLOCKS))
            reply.synthesis.finish()
            while reply.synthesis.ready:
                self._make(reply, self._plan(reply, None))

    def open(self, start: Start) -> None:
        """Begin a reply."""
        synthesis = FrameSynthesis(resolve_voice(start.voice), start.seed)
        self._replies[start.request_id] = _Reply(synthesis, start.latency_first)

    def close(self, request_id: str) -> None:
        """Drop a reply."""
        self._replies.pop(request_id, None)

    def step(self, batch: Batch) -> list[Output]:
        """One chunk of each reply that has enough frames for one."""
        outputs: list[Output] = []
        for work in batch:
            outputs += self._advance(work, self._replies[work.request_id])
        return outputs

    def _advance(self, work: Work, reply: _Reply) -> list[Output]:
        for given in work.inputs:
            self._take_in(work.request_id, reply, given)
        outputs: list[Output] = []
        ready = reply.synthesis.ready
        planned = self._plan(reply, work.lead_ms)
        if ready and (ready >= planned or reply.flush):
            before = reply.synthesis.pulled
            samples = self._make(reply, min(planned, ready))
            if spans := self._take_spans(reply):
                outputs.append(Output(work.request_id, Alignment(spans, reply.exact)))
            outputs.append(Output(work.request_id, Audio(len(samples)), samples))
            if before == 0 or work.lead_ms is None:
                reply.planned = min(2 * planned, FULL_BLOCKS)
            ready = reply.synthesis.ready
        work.more = ready > 0 and (ready >= self._plan(reply, work.lead_ms) or reply.flush)
        if reply.ended and not ready:
            outputs.append(Output(work.request_id, End()))
        return outputs

    def _take_in(self, request_id: str, reply: _Reply, given: Input) -> None:
        match given.message:
            case Frames() as frames:
                if given.array is None or given.array.shape[1:] != (FRAME_WIDTH,):
                    raise StageError(
                        request_id, "bad_frames", f"frames must have {FRAME_WIDTH} values each"
                    )
                self._take_frames(reply, frames, given.array)
                if given.part:
                    return
                reply.spans.extend(frames.alignment)
                reply.exact = reply.exact and frames.exact
                reply.flush = bool(frames.meta.get("clause_end"))
            case End():
                reply.synthesis.finish()
                reply.ended = reply.flush = True
            case _:
                pass

    def _take_frames(self, reply: _Reply, message: Frames, array: Array) -> None:
        median = float(message.meta.get("f0_median_hz", NETWORK_F0_HZ))
        # The array lies in a slot that goes back after this step.
        reply.synthesis.push(np.array(array, np.float32), median)

    def _plan(self, reply: _Reply, lead_ms: float | None) -> int:
        """Blocks of the next chunk: small while the listener has little to hear."""
        if not reply.latency_first:
            return FULL_BLOCKS
        if lead_ms is None or reply.synthesis.pulled == 0:
            return reply.planned
        return min(max(int(lead_ms * _LEAD_SHARE / _BLOCK_MS), FIRST_BLOCKS), FULL_BLOCKS)

    def _make(self, reply: _Reply, blocks: int) -> Array:
        samples = reply.synthesis.pull(blocks)
        return np.rint(samples * 32767).astype(np.int16)

    def _take_spans(self, reply: _Reply) -> tuple[tuple[int, int, int], ...]:
        """Words that end in the audio made so far; at the end, all that are left."""
        made = reply.synthesis.pulled
        over = reply.ended and not reply.synthesis.ready
        spans = []
        while reply.spans and (reply.spans[0][2] <= made or over):
            first, last, frame = reply.spans.popleft()
            spans.append((first, last, min(frame, made) * HOP))
        return tuple(spans)
