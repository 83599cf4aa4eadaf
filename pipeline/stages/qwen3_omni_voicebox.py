"""The VoiceBox of Qwen3-Omni: Code2Wav, streamed without a seam.

A call decodes the new frames and some before them. Its last samples depend on frames that are not
there yet, so it gives fewer than it should; what counts is how many samples have been given out,
not how many frames were decoded.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pipeline.messages import OUTPUT_RATE_HZ, Alignment, Audio, End, Frames, Start
from pipeline.stage import Array, Batch, Output, Stage, StageError, StageSettings, Work
from pipeline.stages.omni_checkpoint import (
    checkpoint_folder,
    dtype_of,
    load_part,
    require_family,
    usable_device,
)
from pipeline.stages.omni_graphs import FixedShapes, readiness_of


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """In frames of 80 ms: the first chunk, the largest, and how many before are decoded again.

    The decoder looks back 72 frames in each of its layers, so that no context short of the whole
    reply is exact.
    """

    first: int
    most: int
    context: int


LATENCY_FIRST = ChunkPlan(4, 12, 25)
QUALITY_FIRST = ChunkPlan(12, 12, 72)
MOST_FIXED = 128
"""Frames. What decodes more at once, by a large `options.context`, is not made ready at load."""

LEAD_SHARE = 0.5
"""A chunk is at most this share of the audio the listener still has, so it is there in time."""


@dataclass(slots=True)
class _Reply:
    plan: ChunkPlan
    codes: list[Array] = field(default_factory=list)  # [groups] each
    spans: deque[tuple[int, int, int]] = field(default_factory=deque)
    decoded: int = 0
    given: int = 0  # samples
    ended: bool = False


class Qwen3OmniVoiceBox(Stage):
    """options: model, dtype, context (frames decoded again, instead of the plan's), compile,
    cuda_graphs.

    With either of the last two, chunks are padded to one of a few lengths, all ready at load.
    """

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._replies: dict[str, _Reply] = {}

    def load(self) -> None:
        """Load Code2Wav out of the checkpoint, and decode a first and a largest chunk."""
        from transformers import Qwen3OmniMoeConfig
        from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeCode2Wav

        options = self._settings.options
        folder = checkpoint_folder(options)
        require_family(folder, "qwen3_omni_moe")
        torch.set_num_threads(self._settings.threads)
        self._device = usable_device(self._settings.device)
        wanted = readiness_of(options, self._device)
        config: Any = Qwen3OmniMoeConfig.from_pretrained(folder).code2wav_config
        self._groups = config.num_quantizers
        self._codebook = config.codebook_size
        self._model: Any = Qwen3OmniMoeCode2Wav(config)
        load_part(self._model, folder, "code2wav.", self._device, dtype_of(options, self._device))
        self._samples = int(self._model.total_upsample)
        context = options.get("context")
        self._context = None if context is None else max(1, int(context))
        self._run = FixedShapes(lambda frames: self._model(frames), wanted, self._device)
        self._lengths = self._fixed_lengths() if wanted else []
        for length in self._lengths:
            self._run.warm(torch.zeros((1, self._groups, length), device=self._device).long())
        silent = [np.zeros(self._groups, np.int32)] * (LATENCY_FIRST.context + LATENCY_FIRST.most)
        for count in (LATENCY_FIRST.first, len(silent)):
            self._decode(silent[:count])

    def _fixed_lengths(self) -> list[int]:
        """Frames of a first chunk, of some on the way, and of all after enough of a reply."""
        lengths = set[int]()
        for plan in (LATENCY_FIRST, QUALITY_FIRST):
            context = plan.context if self._context is None else self._context
            lengths |= {plan.first, plan.most, 2 * plan.most, context + plan.most}
        return sorted(length for length in lengths if length <= MOST_FIXED)

    def open(self, start: Start) -> None:
        """Begin a reply."""
        plan = LATENCY_FIRST if start.latency_first else QUALITY_FIRST
        self._replies[start.request_id] = _Reply(plan)

    def close(self, request_id: str) -> None:
        """Drop a reply."""
        self._replies.pop(request_id, None)

    def step(self, batch: Batch) -> list[Output]:
        """One chunk of each reply that has enough frames for one."""
        return [output for work in batch for output in self._advance(work)]

    def _advance(self, work: Work) -> list[Output]:
        reply = self._replies[work.request_id]
        for given in work.inputs:
            if isinstance(given.message, Frames):
                self._take_in(work.request_id, reply, given.message, given.array)
            reply.ended |= isinstance(given.message, End)
        planned = self._planned(reply, work.lead_ms)
        ready = len(reply.codes) - reply.decoded
        outputs: list[Output] = []
        if ready and (ready >= planned or reply.ended):
            outputs = self._chunk(work.request_id, reply, min(ready, planned))
            ready = len(reply.codes) - reply.decoded
        work.more = ready > 0 and (ready >= self._planned(reply, work.lead_ms) or reply.ended)
        if reply.ended and not ready:
            if spans := self._take_spans(reply):
                outputs.append(Output(work.request_id, Alignment(spans, exact=False)))
            outputs.append(Output(work.request_id, End()))
        return outputs

    def _take_in(
        self, request_id: str, reply: _Reply, message: Frames, array: Array | None
    ) -> None:
        if array is None or array.ndim != 2 or array.shape[1] != self._groups:
            raise StageError(request_id, "bad_frames", f"frames must have {self._groups} codes")
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < self._codebook:
            raise StageError(request_id, "bad_frames", f"codes must be below {self._codebook}")
        reply.codes.extend(np.array(array))
        reply.spans.extend(message.alignment)

    def _planned(self, reply: _Reply, lead_ms: float | None) -> int:
        """Frames of the next chunk: few while the listener has little to hear."""
        if reply.decoded == 0 or lead_ms is None:
            return reply.plan.first if reply.decoded == 0 else reply.plan.most
        frame_ms = self._samples * 1000 / OUTPUT_RATE_HZ
        return min(max(int(lead_ms * LEAD_SHARE / frame_ms), reply.plan.first), reply.plan.most)

    def _chunk(self, request_id: str, reply: _Reply, frames: int) -> list[Output]:
        end = reply.decoded + frames
        context = reply.plan.context if self._context is None else self._context
        begin = max(0, reply.decoded - context)
        wave = self._decode(reply.codes[begin:end])[reply.given - begin * self._samples :]
        reply.decoded = end
        reply.given += len(wave)
        samples = np.rint(np.clip(wave, -1.0, 1.0) * 32767).astype(np.int16)
        outputs = []
        if spans := self._take_spans(reply):
            outputs.append(Output(request_id, Alignment(spans, exact=False)))
        return [*outputs, Output(request_id, Audio(len(samples)), samples)]

    def _take_spans(self, reply: _Reply) -> tuple[tuple[int, int, int], ...]:
        """Words that end in the frames decoded so far."""
        spans = []
        over = reply.ended and reply.decoded == len(reply.codes)
        while reply.spans and (reply.spans[0][2] <= reply.decoded or over):
            first, last, frame = reply.spans.popleft()
            spans.append((first, last, min(frame * self._samples, reply.given)))
        return tuple(spans)

    @torch.inference_mode()
    def _decode(self, codes: list[Array]) -> Array:
        """Samples of these frames, less those at the end that need more of them."""
        stacked = np.stack(codes, axis=1)
        # No sample depends on a frame after those that it needs: padding changes none that is kept.
        padding = next((n for n in self._lengths if n >= len(codes)), len(codes)) - len(codes)
        padded = np.pad(stacked, ((0, 0), (0, padding)))
        frames = torch.from_numpy(padded[None]).long().to(self._device)
        wave: Array = self._run(frames)[0, 0].float().cpu().numpy()
        return wave[: len(wave) - padding * self._samples]
