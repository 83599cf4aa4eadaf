"""The Thinker of Qwen3-Omni: a conversation in, text and what the Talker speaks from out.

The Talker gets rows as soon as they exist: the prompt's when the first token of the reply has been
picked, then the embedding of each token once the next one is there. The last token, which ends the
reply or is cut off, is never embedded: so it is in the model's own `generate()`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pipeline.messages import (
    Audio,
    Condition,
    End,
    Failed,
    Picture,
    Plan,
    Start,
    TextDelta,
    Usage,
)
from pipeline.stage import Array, Batch, Output, Stage, StageError, StageSettings, Work
from pipeline.stages.omni_batch import CacheBatch
from pipeline.stages.omni_checkpoint import (
    checkpoint_folder,
    dtype_of,
    load_model,
    require_family,
    usable_device,
)
from pipeline.stages.omni_graphs import refuse_readiness
from pipeline.stages.omni_hearing import OmniHearing
from pipeline.stages.omni_sampling import Picking, pick
from pipeline.stages.omni_sight import OmniSight
from pipeline.stages.omni_text import OmniTokenizer, StopGuard, TextStream

HEADER_TOKENS = 3
"""`<|im_start|>`, the role, a line feed."""

DEFAULT_TEMPERATURE = 0.7
DEFAULT_TOP_P = 0.8
MAX_TOKENS = 2048


@dataclass(slots=True)
class _Reply:
    start: Start
    ids: list[int]
    picking: Picking
    generator: torch.Generator
    text: TextStream
    guard: StopGuard
    limit: int
    expected: int = 0  # samples of recordings
    recordings: list[Array] = field(default_factory=list)
    pixels: int = 0  # bytes of pictures that are expected
    pictures: list[Array] = field(default_factory=list)
    seen: dict[str, Any] = field(default_factory=dict)  # what positions depend on
    first: int = 0  # position of the reply
    heard: bool = False  # all of them are there
    cache: Any = None
    prompt: list[Output] = field(default_factory=list)  # held back until there is a token to speak
    token: int | None = None  # picked, not yet embedded
    made: int = 0
    said: str = ""


class Qwen3OmniThinker(Stage):
    """options: model (the checkpoint's folder), dtype, temperature and top_p of a request that
    names none."""

    batched = True

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._caches = CacheBatch()
        self._replies: dict[str, _Reply] = {}

    def load(self) -> None:
        """Load the Thinker out of the checkpoint, and run a prompt and a token."""
        from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeThinkerForConditionalGeneration

        options = self._settings.options
        folder = checkpoint_folder(options)
        refuse_readiness(options)
        require_family(folder, "qwen3_omni_moe")
        torch.set_num_threads(self._settings.threads)
        self._device = usable_device(self._settings.device)
        self._dtype = dtype_of(options, self._device)
        self._temperature = float(options.get("temperature", DEFAULT_TEMPERATURE))
        self._top_p = float(options.get("top_p", DEFAULT_TOP_P))
        config: Any = Qwen3OmniMoeConfig.from_pretrained(folder)
        self._config = config
        self._accepted = config.talker_config.accept_hidden_layer
        self._tokenizer = OmniTokenizer(folder)
        self._model = load_model(
            Qwen3OmniMoeThinkerForConditionalGeneration,
            config.thinker_config,
            folder,
            "thinker.",
            self._device,
            self._dtype,
        )
        self._hearing = OmniHearing(
            self._tokenizer, config.thinker_config, self._device, self._dtype
        )
        self._sight = OmniSight(folder, config.thinker_config, self._device, self._dtype)
        with torch.inference_mode():
            out = self._forward([[config.im_start_token_id] * 4], torch.arange(4)[None], None)
            self._forward([[config.im_end_token_id]], torch.tensor([[4]]), out.cache)

    def open(self, start: Start) -> None:
        """Make the prompt; its recordings and pictures come as inputs."""
        if start.tools and start.tool_choice != "none":
            raise StageError(
                start.request_id, "unsupported_value", "this Thinker does not call functions yet"
            )
        sampling = start.sampling
        self._replies[start.request_id] = _Reply(
            start,
            self._tokenizer.prompt(start.items),
            Picking(
                self._temperature if sampling.temperature is None else sampling.temperature,
                top_p=self._top_p if sampling.top_p is None else sampling.top_p,
            ),
            torch.Generator().manual_seed(
                sampling.seed if sampling.seed is not None else start.seed
            ),
            TextStream(self._tokenizer),
            StopGuard(sampling.stop),
            MAX_TOKENS if sampling.max_tokens is None else sampling.max_tokens,
            expected=sum(sum(item.recordings) for item in start.items),
            pixels=sum(3 * h * w for item in start.items for h, w in item.pictures),
        )

    def close(self, request_id: str) -> None:
        """Drop a reply."""
        if (reply := self._replies.pop(request_id, None)) is not None:
            self._caches.drop(reply)

    @torch.inference_mode()
    def step(self, batch: Batch) -> list[Output]:
        """The prompts of new replies, one by one, and a token of all others in one pass."""
        outputs: list[Output] = []
        going: list[tuple[_Reply, Work]] = []
        for work in batch:
            reply = self._replies[work.request_id]
            try:
                if not self._all_heard(reply, work):
                    continue
                if reply.token is None:
                    outputs += self._begin(reply, work)
                else:
                    going.append((reply, work))
            except StageError as error:  # the others of the batch go on
                outputs.append(Output(work.request_id, Failed(error.code, str(error))))
        return outputs + self._go_on(going) if going else outputs

    def _begin(self, reply: _Reply, work: Work) -> list[Output]:
        """The prompt."""
        reply.ids, sound = self._hearing.take_in(reply.ids, reply.start, reply.recordings)
        reply.ids, sight = self._sight.take_in(reply.ids, reply.start, reply.pictures)
        reply.recordings, reply.pictures, reply.expected, reply.pixels = [], [], 0, 0
        if sight:
            lengths = sound["feature_attention_mask"].sum(1) if sound else None
            reply.seen = {"image_grid_thw": sight["image_grid_thw"], "audio_seqlens": lengths}
        positions = self._positions(reply, reply.ids)
        reply.first = int(positions.max()) + 1
        out = self._forward([reply.ids], positions, None, **sound, **sight)
        reply.prompt = self._prompt_rows(reply, out)
        reply.cache = out.cache
        return self._pick(reply, work, out.logits[0, -1])

    def _go_on(self, going: list[tuple[_Reply, Work]]) -> list[Output]:
        """One token more of each."""
        replies = [reply for reply, _ in going]
        outputs = [output for reply in replies for output in self._speak_from(reply)]
        cache, mask = self._caches.join(replies)
        tokens = [[reply.token] for reply in replies]
        positions = torch.tensor([[reply.first + reply.made - 1] for reply in replies])
        if mask is not None:
            mask = mask.to(self._device)
        out = self._forward(tokens, positions, cache, attention_mask=mask)
        self._caches.advance(out.cache)
        for (reply, work), scores in zip(going, out.logits[:, -1], strict=True):
            outputs += self._pick(reply, work, scores)
        return outputs

    def _pick(self, reply: _Reply, work: Work, scores: torch.Tensor) -> list[Output]:
        reply.token = pick(scores, reply.picking, reply.generator)
        reply.made += 1
        return self._tell(reply, work)

    def _all_heard(self, reply: _Reply, work: Work) -> bool:
        for given in work.inputs:
            if isinstance(given.message, Audio) and given.array is not None:
                # The array lies in a slot that goes back after this step.
                reply.recordings.append(np.array(given.array))
            if isinstance(given.message, Picture) and given.array is not None:
                reply.pictures.append(np.array(given.array))
            reply.heard |= isinstance(given.message, End)
        waits = reply.expected or reply.pixels
        if reply.heard and waits:
            if sum(map(len, reply.recordings)) != reply.expected:
                raise StageError(reply.start.request_id, "bad_audio", "recordings are missing")
            if sum(one.size for one in reply.pictures) != reply.pixels:
                raise StageError(reply.start.request_id, "bad_image", "pictures are missing")
        return reply.heard or not waits

    def _positions(self, reply: _Reply, ids: list[int]) -> torch.Tensor:
        """[3 or 1, 1, ids]: in time, down and across, which differ only inside of pictures."""
        if not reply.seen:
            return torch.arange(len(ids))[None, None]
        given = torch.tensor([ids], device=self._device)
        positions, _ = self._model.get_rope_index(
            given, attention_mask=torch.ones_like(given), **reply.seen
        )
        told: torch.Tensor = positions.long()
        return told

    def _tell(self, reply: _Reply, work: Work) -> list[Output]:
        request_id, token = reply.start.request_id, reply.token
        assert token is not None
        ended = token == self._config.im_end_token_id
        cut = not ended and reply.made >= reply.limit
        tokens = () if ended else (token,)
        text = reply.guard.push("" if ended else reply.text.push(token))
        if (ended or cut) and not reply.guard.stopped:
            text += reply.guard.push(reply.text.flush()) + reply.guard.flush()
        outputs = self._text(reply, text, *tokens)
        if ended or reply.guard.stopped:
            return [*outputs, Output(request_id, End("stop", self._usage(reply)))]
        if cut:
            return [*outputs, Output(request_id, End("length", self._usage(reply)))]
        work.more = True
        return outputs

    def _usage(self, reply: _Reply) -> Usage:
        return Usage(
            len(reply.ids),
            reply.made,
            audio_tokens=reply.ids.count(self._hearing.token),
            image_tokens=reply.ids.count(self._sight.token),
        )

    def _text(self, reply: _Reply, text: str, *tokens: int) -> list[Output]:
        reply.said += text
        if not text and not tokens:
            return []
        return [Output(reply.start.request_id, TextDelta(text, token_ids=tokens))]

    # -- what the Talker needs -------------------------------------------------------------------

    def _prompt_rows(self, reply: _Reply, out: Any) -> list[Output]:
        """Three special tokens, the reply's header, and all user turns, as one payload."""
        if reply.start.plan is Plan.TEXT:
            return []
        config, ids = self._config, reply.ids
        special = torch.tensor(
            [config.tts_bos_token_id, config.tts_eos_token_id, config.tts_pad_token_id],
            device=self._device,
        )
        embedded, hidden = out.hidden_states[0][0], out.hidden_states[self._accepted][0]
        rows = [self._model.get_input_embeddings()(special), embedded[-HEADER_TOKENS:]]
        heard: list[int] = []  # which of the rows are of a sound or a picture
        asked: list[int] = []
        starts = [at for at, token in enumerate(ids) if token == config.im_start_token_id]
        ends = [*starts[1:], len(ids)]
        for begin, end in zip(starts, ends, strict=True):
            if ids[begin + 1] == config.user_token_id:
                count = sum(map(len, rows))
                senses = (self._hearing.token, self._sight.token)
                sounds = [at for at in range(begin, end) if ids[at] in senses]
                turn = embedded[begin:end].clone()
                turn[[at - begin for at in sounds]] = hidden[sounds]
                rows.append(turn)
                asked += ids[begin:end]
                heard += [count + at - begin for at in sounds]
        meta: dict[str, Any] = {"rows": "prompt", "heard": heard}
        if reply.seen:
            meta["positions"] = self._positions(reply, asked)[:, 0].tolist()
        return [self._rows(reply, torch.cat(rows), Condition("rows", meta=meta))]

    def _speak_from(self, reply: _Reply) -> list[Output]:
        """The row of the token that was picked last, and before the first the prompt's."""
        if reply.start.plan is Plan.TEXT:
            return []
        token = torch.tensor([reply.token], device=self._device)
        row = self._model.get_input_embeddings()(token)
        outputs, reply.prompt = reply.prompt, []
        return [*outputs, self._rows(reply, row, Condition("rows", text=reply.said))]

    def _rows(self, reply: _Reply, rows: torch.Tensor, condition: Condition) -> Output:
        array = np.ascontiguousarray(rows.float().cpu().numpy())
        return Output(reply.start.request_id, condition, array)

    def _forward(
        self, ids: list[list[Any]], positions: torch.Tensor, cache: Any, **inputs: Any
    ) -> Any:
        """One pass. Positions are told, so that the model keeps nothing of a request."""
        return self._model(
            input_ids=torch.tensor(ids, device=self._device),
            position_ids=positions.to(self._device).expand(3, -1, -1),
            cache=cache,
            use_cache=True,
            output_hidden_states=True,
            **inputs,
        )
