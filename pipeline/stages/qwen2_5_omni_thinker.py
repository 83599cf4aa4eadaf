"""The Thinker of Qwen2.5-Omni: as Qwen3-Omni's, but for what its Talker speaks from.

A row is the sum of a token's embedding and of the last hidden state at its place, so it exists one
pass later: once the token has been fed back. The last token of a reply never is.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from pipeline.messages import Condition, Plan
from pipeline.stage import Output, Work
from pipeline.stages.omni_checkpoint import (
    CheckpointError,
    checkpoint_folder,
    dtype_of,
    load_model,
    require_family,
    usable_device,
)
from pipeline.stages.omni_graphs import refuse_readiness
from pipeline.stages.omni_hearing import Qwen25OmniHearing
from pipeline.stages.omni_sight import OmniSight
from pipeline.stages.omni_text import OmniTokenizer
from pipeline.stages.qwen2_5_omni_speakers import Speakers
from pipeline.stages.qwen3_omni_thinker import (
    DEFAULT_TEMPERATURE,
    DEFAULT_TOP_P,
    Qwen3OmniThinker,
    _Reply,
)

FAMILY = "qwen2_5_omni"


class Qwen25OmniThinker(Qwen3OmniThinker):
    """options: as Qwen3OmniThinker's."""

    def load(self) -> None:
        """Load the Thinker out of the checkpoint, and run a prompt and a token."""
        from transformers import Qwen2_5OmniConfig, Qwen2_5OmniThinkerForConditionalGeneration

        options = self._settings.options
        folder = checkpoint_folder(options)
        refuse_readiness(options)
        require_family(folder, FAMILY)
        torch.set_num_threads(self._settings.threads)
        self._device = usable_device(self._settings.device)
        self._dtype = dtype_of(options, self._device)
        self._temperature = float(options.get("temperature", DEFAULT_TEMPERATURE))
        self._top_p = float(options.get("top_p", DEFAULT_TOP_P))
        config: Any = Qwen2_5OmniConfig.from_pretrained(folder)
        self._tokenizer = OmniTokenizer(folder)
        self._config = SimpleNamespace(
            im_start_token_id=self._single("<|im_start|>"),
            im_end_token_id=self._single("<|im_end|>"),
        )
        talker = config.talker_config
        self._special = [
            *Speakers(folder, {}).begins(),
            talker.tts_text_end_token_id,
            talker.tts_text_pad_token_id,
        ]
        self._model = load_model(
            Qwen2_5OmniThinkerForConditionalGeneration,
            config.thinker_config,
            folder,
            "thinker.",
            self._device,
            self._dtype,
        )
        self._hearing = Qwen25OmniHearing(
            self._tokenizer, config.thinker_config, self._device, self._dtype
        )
        self._sight = OmniSight(folder, config.thinker_config, self._device, self._dtype)
        with torch.inference_mode():
            out = self._forward([[self._config.im_start_token_id] * 4], torch.arange(4)[None], None)
            self._forward([[self._config.im_end_token_id]], torch.tensor([[4]]), out.cache)

    def _single(self, text: str) -> int:
        ids = self._tokenizer.encode(text)
        if len(ids) != 1:
            raise CheckpointError(f"the tokenizer has no {text}")
        return ids[0]

    def _go_on(self, going: list[tuple[_Reply, Work]]) -> list[Output]:
        """One token more of each, and the row of the one before."""
        replies = [reply for reply, _ in going]
        cache, mask = self._caches.join(replies)
        tokens = [[reply.token] for reply in replies]
        positions = torch.tensor([[reply.first + reply.made - 1] for reply in replies])
        if mask is not None:
            mask = mask.to(self._device)
        out = self._forward(tokens, positions, cache, attention_mask=mask)
        self._caches.advance(out.cache)
        summed = out.hidden_states[0] + out.hidden_states[-1]
        outputs: list[Output] = []
        for number, (reply, work) in enumerate(going):
            if reply.start.plan is not Plan.TEXT:
                row = self._rows(reply, summed[number], Condition("rows", text=reply.said))
                outputs += [*reply.prompt, row]
                reply.prompt = []
            outputs += self._pick(reply, work, out.logits[number, -1])
        return outputs

    def _prompt_rows(self, reply: _Reply, out: Any) -> list[Output]:
        """The embeddings of what speech begins, ends and is padded with, and the whole prompt.

        At the places of a sound or a picture it is the hidden state alone.
        """
        if reply.start.plan is Plan.TEXT:
            return []
        ids = torch.tensor(reply.ids, device=self._device)
        embedded, hidden = out.hidden_states[0][0], out.hidden_states[-1][0]
        sensed = (ids == self._hearing.token) | (ids == self._sight.token)
        worded = embedded.masked_fill(sensed[:, None], 0.0)
        special = torch.tensor(self._special, device=self._device)
        rows = torch.cat([self._model.get_input_embeddings()(special), worded + hidden])
        meta: dict[str, Any] = {"rows": "prompt"}
        if reply.seen:
            meta["positions"] = self._positions(reply, reply.ids)[:, 0].tolist()
        return [self._rows(reply, rows, Condition("rows", meta=meta))]
