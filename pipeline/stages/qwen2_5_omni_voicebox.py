"""The VoiceBox of Qwen2.5-Omni: Token2Wav, in blocks.

A diffusion model makes a mel spectrogram of the codes out of noise, and BigVGAN a wave of that. The
first looks a block ahead and some back, so a chunk is made together with codes on both sides of
it. Noise belongs to a place in the reply, whatever the chunks. The wave is held back by as much of
the spectrogram as BigVGAN looks ahead: its chunks join without a seam.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pipeline.messages import Alignment, Audio, End, Frames, Plan, Start
from pipeline.stage import Array, Batch, Output, Stage, StageError, StageSettings, Work
from pipeline.stages.omni_checkpoint import (
    checkpoint_folder,
    load_part,
    require_family,
    usable_device,
)
from pipeline.stages.omni_graphs import refuse_readiness
from pipeline.stages.qwen2_5_omni_speakers import Speakers
from pipeline.stages.qwen2_5_omni_thinker import FAMILY

STEPS = 10
GUIDANCE = 0.5
SWAY = -1.0
"""As the official code: points in time, weight of the guidance, and bias towards early points."""

VOCODER_FRAMES = 24
"""Frames of the spectrogram on each side that BigVGAN gets beside those it makes samples of."""


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """In blocks of the diffusion model: made at once, and before and after it that are made again.

    Each evaluation looks around, so that nothing short of the whole reply is exact.
    """

    made: int
    before: int
    after: int


LATENCY_FIRST = BlockPlan(2, 2, 1)
QUALITY_FIRST = BlockPlan(4, 4, 2)


@dataclass(slots=True)
class _Reply:
    speaker: str
    plan: BlockPlan
    generator: torch.Generator
    codes: list[int] = field(default_factory=list)
    noise: list[torch.Tensor] = field(default_factory=list)  # [repeats, bins] for each code
    spans: deque[tuple[int, int, int]] = field(default_factory=deque)
    mel: torch.Tensor | None = None  # [1, bins, frames]
    decoded: int = 0  # codes
    given: int = 0  # frames of the spectrogram
    ended: bool = False


class Qwen25OmniVoiceBox(Stage):
    """options: model, voices (as the Talker's), blocks (made at once, instead of the plan's).

    Always float32, as in the official code.
    """

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._replies: dict[str, _Reply] = {}

    def load(self) -> None:
        """Load Token2Wav out of the checkpoint, and decode a chunk."""
        from transformers import Qwen2_5OmniConfig, Qwen2_5OmniToken2WavModel

        options = self._settings.options
        folder = checkpoint_folder(options)
        refuse_readiness(options)
        require_family(folder, FAMILY)
        torch.set_num_threads(self._settings.threads)
        self._device = usable_device(self._settings.device)
        config: Any = Qwen2_5OmniConfig.from_pretrained(folder).token2wav_config
        self._dit_config = config.dit_config
        self._repeats = int(config.dit_config.repeats)
        self._block = int(config.dit_config.block_size) // self._repeats  # codes
        self._hop = int(np.prod(config.bigvgan_config.upsample_rates))  # samples of a mel frame
        self._model: Any = Qwen2_5OmniToken2WavModel(config)
        load_part(self._model, folder, "token2wav.", self._device, torch.float32)
        self._speakers = Speakers(folder, options.get("voices", {}))
        blocks = options.get("blocks")
        self._blocks = None if blocks is None else max(1, int(blocks))
        self.open(Start("warm-up", Plan.SPEECH))
        reply = self._replies["warm-up"]
        reply.codes, reply.ended = [0] * (3 * self._block), True
        self._chunk("warm-up", reply, 2 * self._block)
        self.close("warm-up")

    def open(self, start: Start) -> None:
        """Begin a reply."""
        self._replies[start.request_id] = _Reply(
            self._speakers.named(start.voice),
            LATENCY_FIRST if start.latency_first else QUALITY_FIRST,
            torch.Generator().manual_seed(start.seed),
        )

    def close(self, request_id: str) -> None:
        """Drop a reply."""
        self._replies.pop(request_id, None)

    def step(self, batch: Batch) -> list[Output]:
        """One chunk of each reply that has enough codes for one."""
        return [output for work in batch for output in self._advance(work)]

    def _advance(self, work: Work) -> list[Output]:
        reply = self._replies[work.request_id]
        for given in work.inputs:
            if isinstance(given.message, Frames):
                self._take_in(work.request_id, reply, given.message, given.array)
            reply.ended |= isinstance(given.message, End)
        outputs: list[Output] = []
        if count := self._ready(reply):
            outputs = self._chunk(work.request_id, reply, count)
        work.more = self._ready(reply) > 0
        if reply.ended and not work.more:
            if spans := self._take_spans(reply):
                outputs.append(Output(work.request_id, Alignment(spans, exact=False)))
            outputs.append(Output(work.request_id, End()))
        return outputs

    def _take_in(
        self, request_id: str, reply: _Reply, message: Frames, array: Array | None
    ) -> None:
        if array is None or array.ndim != 2 or array.shape[1] != 1:
            raise StageError(request_id, "bad_frames", "frames must have 1 code")
        most = self._dit_config.num_embeds
        if array.size and not 0 <= int(array.min()) <= int(array.max()) <= most:
            raise StageError(request_id, "bad_frames", f"codes must be at most {most}")
        reply.codes.extend(int(code) for code in array[:, 0])
        reply.spans.extend(message.alignment)

    def _ready(self, reply: _Reply) -> int:
        """Codes of the next chunk; 0 if there are too few yet."""
        made = (self._blocks or reply.plan.made) * self._block
        left = len(reply.codes) - reply.decoded
        if reply.ended:
            return min(made, left)
        return made if left >= made + reply.plan.after * self._block else 0

    def _chunk(self, request_id: str, reply: _Reply, count: int) -> list[Output]:
        end = reply.decoded + count
        begin = max(0, reply.decoded - reply.plan.before * self._block)
        ahead = min(len(reply.codes), end + reply.plan.after * self._block)
        mel = self._mel(reply, begin, ahead)
        first, last = ((at - begin) * self._repeats for at in (reply.decoded, end))
        new = mel[:, :, first:last]
        reply.mel = new if reply.mel is None else torch.cat([reply.mel, new], dim=2)
        reply.decoded = end
        over = reply.ended and end == len(reply.codes)
        samples = self._wave(reply, over)
        outputs = []
        if spans := self._take_spans(reply):
            outputs.append(Output(request_id, Alignment(spans, exact=False)))
        if len(samples):
            outputs.append(Output(request_id, Audio(len(samples)), samples))
        return outputs

    def _take_spans(self, reply: _Reply) -> tuple[tuple[int, int, int], ...]:
        """Words that end in what has been given out."""
        spans = []
        over = reply.ended and reply.decoded == len(reply.codes)
        while reply.spans and (reply.spans[0][2] * self._repeats <= reply.given or over):
            first, last, code = reply.spans.popleft()
            spans.append((first, last, min(code * self._repeats, reply.given) * self._hop))
        return tuple(spans)

    # -- the model -------------------------------------------------------------------------------

    @torch.inference_mode()
    def _mel(self, reply: _Reply, begin: int, end: int) -> torch.Tensor:
        """The spectrogram of these codes. [1, bins, frames]"""
        from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import RungeKutta4ODESolver

        bins = self._dit_config.mel_dim
        while len(reply.noise) < end:
            reply.noise.append(torch.randn((self._repeats, bins), generator=reply.generator))
        noise = torch.cat(reply.noise[begin:end])[None].to(self._device)
        codes = torch.tensor([reply.codes[begin:end]], device=self._device)
        vector, like = (one.to(self._device) for one in self._speakers.sound(reply.speaker))
        vector = vector[:, None].expand(-1, noise.shape[1], -1)

        def slope(time: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            both = self._model.code2wav_dit_model(
                hidden_states=state,
                speaker_embedding=vector,
                condition_vector=like,
                quantized_code=codes,
                time_step=time,
                apply_cfg=True,
            )
            guided, free = both.chunk(2)
            sloped: torch.Tensor = guided + (guided - free) * GUIDANCE
            return sloped

        times = torch.linspace(0, 1, STEPS, device=self._device)
        times = times + SWAY * (torch.cos(torch.pi / 2 * times) - 1 + times)
        solver: Any = RungeKutta4ODESolver
        mel: torch.Tensor = solver(function=slope, initial_value=noise).integrate(times)[-1]
        return mel.permute(0, 2, 1)

    @torch.inference_mode()
    def _wave(self, reply: _Reply, over: bool) -> Array:
        """Samples of all frames that have enough after them. int16"""
        assert reply.mel is not None
        frames = reply.mel.shape[2]
        end = frames if over else max(reply.given, frames - VOCODER_FRAMES)
        begin = max(0, reply.given - VOCODER_FRAMES)
        if end == reply.given:
            return np.zeros(0, np.int16)
        wave = self._model.code2wav_bigvgan_model(reply.mel[:, :, begin:]).float().numpy()
        kept = wave[(reply.given - begin) * self._hop : (end - begin) * self._hop]
        reply.given = end
        samples: Array = np.rint(np.clip(kept, -1.0, 1.0) * 32767).astype(np.int16)
        return samples
