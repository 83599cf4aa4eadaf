"""The Talker of Qwen2.5-Omni: rows of the Thinker in, one codec token at a time out, 50 a second.

As Qwen3-Omni's it begins with the first row of the reply, takes one more for each code while there
are any, and waits for a row that is not there yet.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from pipeline.messages import Plan, Start
from pipeline.stage import Array, Work
from pipeline.stages.omni_checkpoint import (
    checkpoint_folder,
    dtype_of,
    load_part,
    require_family,
    usable_device,
)
from pipeline.stages.omni_graphs import refuse_readiness
from pipeline.stages.omni_sampling import Picking, pick
from pipeline.stages.qwen2_5_omni_speakers import Speakers
from pipeline.stages.qwen2_5_omni_thinker import FAMILY
from pipeline.stages.qwen3_omni_talker import MAX_FRAMES, Qwen3OmniTalker, TalkerReply

CODE = Picking(0.9, top_k=40, top_p=0.8, repetition_penalty=1.05)


class Qwen25OmniTalker(Qwen3OmniTalker):
    """options: as Qwen3OmniTalker's; max_frames counts codes of 20 ms."""

    frames_per_s = 50.0

    def load(self) -> None:
        """Load the Talker out of the checkpoint, and make a code."""
        from transformers import Qwen2_5OmniConfig, Qwen2_5OmniTalkerForConditionalGeneration

        options = self._settings.options
        folder = checkpoint_folder(options)
        refuse_readiness(options)
        require_family(folder, FAMILY)
        torch.set_num_threads(self._settings.threads)
        self._device = usable_device(self._settings.device)
        self._dtype = dtype_of(options, self._device)
        config: Any = Qwen2_5OmniConfig.from_pretrained(folder)
        self._config = config.talker_config
        self._model = Qwen2_5OmniTalkerForConditionalGeneration(self._config)
        load_part(self._model, folder, "talker.", self._device, self._dtype)
        greedy = bool(options.get("greedy", False))
        self._first = Picking(repetition_penalty=1.05) if greedy else CODE
        self._groups = 1
        self._limit = int(options.get("max_frames", MAX_FRAMES))
        self._speaker_dict = Speakers(folder, options.get("voices", {}))
        self._ends = (self._config.tts_codec_pad_token_id, self._config.tts_codec_end_token_id)
        # What Token2Wav has no embedding for is no sound, and would end the decoder.
        sounds = config.token2wav_config.dit_config.num_embeds
        self._suppressed = torch.arange(self._config.vocab_size) > sounds
        self._suppressed[list(self._ends)] = False
        self._suppressed[self._config.tts_codec_start_token_id] = True
        self._suppressed = self._suppressed.to(self._device)
        self._warm_up()

    def _warm_up(self) -> None:
        width = self._config.embedding_size
        self.open(Start("warm-up", Plan.SPEECH))
        reply = self._replies["warm-up"]
        reply.prompt = np.zeros((len(self._speaker_dict.begins()) + 3, width), np.float32)
        reply.rows.append(np.zeros((1, width), np.float32))
        reply.ended = True
        self.step([Work("warm-up"), Work("warm-up")])
        self.close("warm-up")

    def _is_over(self, reply: TalkerReply) -> bool:
        return reply.code in self._ends or reply.frames >= self._limit

    def _begin(self, reply: TalkerReply) -> None:
        """The prompt, how the speaker begins, and the first token of the reply."""
        assert reply.prompt is not None
        config, begins = self._config, self._speaker_dict.begins()
        rows = self._project(reply.prompt)
        reply.prompt = None
        count = len(begins)
        bos, prompt = rows[:, :count], rows[:, count + 2 :]
        reply.eos, reply.pad = rows[:, count : count + 1], rows[:, count + 1 : count + 2]
        place = begins.index(self._speaker_dict.begin(self._speaker_dict.named(reply.start.voice)))
        rows = torch.cat(
            [prompt, bos[:, place : place + 1], self._project(reply.rows.popleft())], dim=1
        )
        codes = [config.tts_codec_pad_token_id, config.tts_codec_start_token_id]
        rows[:, -2:] += self._model.get_input_embeddings()(
            torch.tensor([codes], device=self._device)
        )
        # The official code's prompt of codes, which its repetition penalty counts as said.
        reply.seen = {config.tts_codec_mask_token_id, *codes}
        self._take_in_prompt(reply, rows)

    def _project(self, rows: Array) -> torch.Tensor:
        """Rows stay as they are: the model projects them together with the code's embedding."""
        return torch.from_numpy(rows).to(self._device, self._dtype)[None]

    def _residuals(self, replies: list[TalkerReply]) -> tuple[list[list[int]], torch.Tensor]:
        """There are none: a frame is one code."""
        codes = [reply.code for reply in replies if reply.code is not None]
        return [codes], self._model.get_input_embeddings()(self._column(codes))

    def _forward(
        self,
        rows: torch.Tensor,
        positions: torch.Tensor,
        cache: Any,
        mask: torch.Tensor | None = None,
    ) -> Any:
        """Around the model's own `forward`, which keeps positions of a request."""
        out = self._model.model(
            inputs_embeds=self._model.thinker_to_talker_proj(rows),
            position_ids=positions.to(self._device).expand(3, -1, -1),
            attention_mask=mask,
            cache=cache,
            use_cache=True,
        )
        logits = self._model.codec_head(out.last_hidden_state[:, -1:])
        return SimpleNamespace(cache=out.cache, logits=logits)

    def _take_out(self, replies: list[TalkerReply], out: Any) -> None:
        """Each reply's next code."""
        scores = out.logits[:, -1].float().masked_fill(self._suppressed, float("-inf"))
        for row, reply in enumerate(replies):
            reply.code = pick(scores[row], self._first, reply.generator, reply.seen)
