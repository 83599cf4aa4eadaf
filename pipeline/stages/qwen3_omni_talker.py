"""The Talker of Qwen3-Omni: rows of the Thinker in, frames of codec tokens out, 12.5 a second.

It begins with the first token of the reply, and takes one more row for each frame. A row that is
not there yet is waited for, never replaced: anything else would be another voice.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pipeline.messages import Condition, End, Failed, Frames, Plan, Start
from pipeline.stage import Array, Batch, Input, Output, Stage, StageError, StageSettings, Work
from pipeline.stages.omni_batch import CacheBatch
from pipeline.stages.omni_checkpoint import (
    CheckpointError,
    checkpoint_folder,
    dtype_of,
    load_part,
    require_family,
    usable_device,
)
from pipeline.stages.omni_graphs import refuse_readiness
from pipeline.stages.omni_sampling import Picking, pick
from pipeline.stages.omni_words import WordClock

FRAMES_PER_S = 12.5
SPECIAL_ROWS = 3  # begin, end and padding of a text
HEADER_ROWS = 3
PADDING_ROWS = 4

SUPPRESSED = 1024
"""The last so many codes are no sounds; only the end of speech among them is ever picked."""

FIRST_CODE = Picking(0.9, top_k=50, top_p=1.0, repetition_penalty=1.05)
RESIDUAL_CODE = Picking(1.0, top_k=50, top_p=0.8)
MAX_FRAMES = 4096


@dataclass(slots=True)
class TalkerReply:
    """How far one reply has come."""

    start: Start
    generator: torch.Generator
    words: WordClock
    parts: list[Array] = field(default_factory=list)
    prompt: Array | None = None
    heard: list[int] = field(default_factory=list)  # which of its rows are of a sound or a picture
    positions: list[list[int]] = field(default_factory=list)  # of its rows, with pictures
    rows: deque[Array] = field(default_factory=deque)
    ended: bool = False
    eos_given: bool = False
    pad: Any = None
    eos: Any = None
    cache: Any = None
    position: int = 0
    code: int | None = None  # the first code of the next frame
    hidden: Any = None
    seen: set[int] = field(default_factory=set)
    frames: int = 0


class Qwen3OmniTalker(Stage):
    """options: model, dtype, greedy (the likeliest code always), max_frames, voices (a map).

    voices: which of the checkpoint's speakers a voice of the server is; others share them out.
    """

    batched = True
    frames_per_s = FRAMES_PER_S

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._caches = CacheBatch()
        self._replies: dict[str, TalkerReply] = {}

    def load(self) -> None:
        """Load the Talker out of the checkpoint, and make a frame."""
        from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeTalkerForConditionalGeneration

        options = self._settings.options
        folder = checkpoint_folder(options)
        refuse_readiness(options)
        require_family(folder, "qwen3_omni_moe")
        torch.set_num_threads(self._settings.threads)
        self._device = usable_device(self._settings.device)
        self._dtype = dtype_of(options, self._device)
        config: Any = Qwen3OmniMoeConfig.from_pretrained(folder)
        self._config: Any = config.talker_config
        self._model: Any = Qwen3OmniMoeTalkerForConditionalGeneration(self._config)
        load_part(self._model, folder, "talker.", self._device, self._dtype)
        greedy = bool(options.get("greedy", False))
        self._first = Picking(repetition_penalty=1.05) if greedy else FIRST_CODE
        self._residual = Picking() if greedy else RESIDUAL_CODE
        self._groups: int = self._config.num_code_groups
        self._limit = int(options.get("max_frames", MAX_FRAMES))
        self._speakers = dict(self._config.speaker_id)
        self._voices = {str(k): str(v).lower() for k, v in options.get("voices", {}).items()}
        for voice, speaker in self._voices.items():
            if speaker not in self._speakers:
                known = ", ".join(self._speakers)
                raise CheckpointError(f"options.voices.{voice}: no {speaker!r}; there are {known}")
        vocabulary = self._config.text_config.vocab_size
        self._suppressed = torch.zeros(vocabulary, dtype=torch.bool)
        self._suppressed[vocabulary - SUPPRESSED :] = True
        self._suppressed[self._config.codec_eos_token_id] = False
        self._suppressed = self._suppressed.to(self._device)
        self._warm_up()

    def _warm_up(self) -> None:
        width = self._config.thinker_hidden_size
        self.open(Start("warm-up", Plan.SPEECH))
        reply = self._replies["warm-up"]
        reply.prompt = np.zeros((SPECIAL_ROWS + HEADER_ROWS + 1, width), np.float32)
        reply.rows.append(np.zeros((1, width), np.float32))
        reply.ended = True
        self.step([Work("warm-up"), Work("warm-up")])
        self.close("warm-up")

    def open(self, start: Start) -> None:
        """Begin a reply."""
        self._replies[start.request_id] = TalkerReply(
            start, torch.Generator().manual_seed(start.seed), WordClock(self.frames_per_s)
        )

    def close(self, request_id: str) -> None:
        """Drop a reply."""
        if (reply := self._replies.pop(request_id, None)) is not None:
            self._caches.drop(reply)

    @torch.inference_mode()
    def step(self, batch: Batch) -> list[Output]:
        """A frame of each reply whose text is there, all of them in one pass."""
        outputs: list[Output] = []
        going: list[tuple[TalkerReply, torch.Tensor]] = []
        for work in batch:
            reply = self._replies[work.request_id]
            try:
                for given in work.inputs:
                    self._take_in(reply, given)
            except StageError as error:  # the others of the batch go on
                outputs.append(Output(work.request_id, Failed(error.code, str(error))))
                continue
            if reply.code is None and reply.rows:
                self._begin(reply)
            if reply.code is None:
                outputs += [Output(work.request_id, End())] if reply.ended else []
            elif self._is_over(reply):
                outputs += self._end(reply)
            elif (text := self._next_text(reply)) is not None:
                going.append((reply, text))
                work.more = True
        return outputs + self._go_on(going) if going else outputs

    def _is_over(self, reply: TalkerReply) -> bool:
        return reply.code == self._config.codec_eos_token_id or reply.frames >= self._limit

    def _go_on(self, going: list[tuple[TalkerReply, torch.Tensor]]) -> list[Output]:
        outputs = []
        replies = [reply for reply, _ in going]
        frames = self._frames(replies, torch.cat([text for _, text in going]))
        for reply, frame in zip(replies, frames, strict=True):
            reply.frames += 1
            spans = reply.words.at(reply.frames, over=reply.ended and reply.eos_given)
            message = Frames(alignment=spans, exact=False)
            outputs.append(Output(reply.start.request_id, message, frame[None]))
        return outputs

    def _take_in(self, reply: TalkerReply, given: Input) -> None:
        match given.message:
            case Condition(kind="rows", meta=meta, text=text):
                if given.array is None:
                    raise StageError(reply.start.request_id, "bad_rows", "rows are missing")
                # The array lies in a slot that goes back after this step.
                rows = np.array(given.array)
                if meta.get("rows") == "prompt":
                    reply.parts.append(rows)
                    reply.heard = list(meta.get("heard", ()))
                    reply.positions = list(meta.get("positions", ()))
                    if given.part == given.parts - 1:
                        reply.prompt, reply.parts = np.concatenate(reply.parts), []
                else:
                    reply.rows.append(rows)
                    reply.words.hear(text)
            case Condition():
                raise StageError(
                    reply.start.request_id,
                    "unsupported_value",
                    "this Talker speaks what its own Thinker says; it cannot read out a text",
                )
            case End():
                reply.ended = True
            case _:
                pass

    def _end(self, reply: TalkerReply) -> list[Output]:
        request_id = reply.start.request_id
        outputs = []
        if spans := reply.words.at(reply.frames, over=True, rest=True):
            empty = np.zeros((0, self._groups), np.int32)
            outputs.append(Output(request_id, Frames(alignment=spans, exact=False), empty))
        return [*outputs, Output(request_id, End())]

    # -- the model -------------------------------------------------------------------------------

    def _begin(self, reply: TalkerReply) -> None:
        """The prompt, with the speaker and the first token of the reply in it."""
        assert reply.prompt is not None
        config, model = self._config, self._model
        special, header, user = np.split(
            reply.prompt, [SPECIAL_ROWS, SPECIAL_ROWS + HEADER_ROWS], axis=0
        )
        projected = self._project(special)
        bos, reply.eos, reply.pad = (projected[:, row : row + 1] for row in range(SPECIAL_ROWS))
        text = torch.cat(
            [
                self._project(header),
                reply.pad.expand(1, PADDING_ROWS, -1),
                bos,
                self._project(reply.rows.popleft()),
            ],
            dim=1,
        )
        codes = [
            config.codec_nothink_id,
            config.codec_think_bos_id,
            config.codec_think_eos_id,
            self._speaker(reply.start.voice),
            config.codec_pad_id,
            config.codec_bos_id,
        ]
        embedded = model.get_input_embeddings()(torch.tensor([codes], device=self._device))
        text[:, HEADER_ROWS:] += embedded
        turns = self._project(user)
        if reply.heard:
            at = [row - SPECIAL_ROWS - HEADER_ROWS for row in reply.heard]
            sound = torch.from_numpy(user[at]).to(self._device, self._dtype)
            turns[:, at] = model.hidden_projection(sound[None])
        reply.prompt = None
        self._take_in_prompt(reply, torch.cat([turns, text], dim=1))

    def _take_in_prompt(self, reply: TalkerReply, rows: torch.Tensor) -> None:
        """Rows [1, rows, width]; the first ones may have positions of their own."""
        positions = torch.arange(rows.shape[1])[None, None]
        if reply.positions:
            given = torch.tensor(reply.positions)[:, None]
            rest = torch.arange(rows.shape[1] - given.shape[2]) + given.max() + 1
            positions = torch.cat([given, rest.expand(3, 1, -1)], dim=2)
        out = self._forward(rows, positions, None)
        reply.cache, reply.position = out.cache, int(positions.max()) + 1
        self._take_out([reply], out)

    def _project(self, rows: Array) -> torch.Tensor:
        tensor = torch.from_numpy(rows).to(self._device, self._dtype)
        projected: torch.Tensor = self._model.text_projection(tensor[None])
        return projected

    def _next_text(self, reply: TalkerReply) -> torch.Tensor | None:
        """What goes with the next frame; None if the Thinker has not said it yet."""
        if reply.rows:
            return self._project(reply.rows.popleft())
        if not reply.ended:
            return None
        text = reply.pad if reply.eos_given else reply.eos
        reply.eos_given = True
        assert isinstance(text, torch.Tensor)
        return text

    def _frames(self, replies: list[TalkerReply], texts: torch.Tensor) -> Array:
        """All codes of these frames, and then the first of the next ones. [replies, groups]"""
        for reply in replies:
            assert reply.code is not None
            reply.seen.add(reply.code)
        codes, embedded = self._residuals(replies)
        cache, mask = self._caches.join(replies)
        positions = torch.tensor([[reply.position] for reply in replies])
        if mask is not None:
            mask = mask.to(self._device)
        out = self._forward(embedded + texts, positions, cache, mask)
        self._caches.advance(out.cache)
        for reply in replies:
            reply.position += 1
        self._take_out(replies, out)
        return np.array(codes, np.int32).T

    def _residuals(self, replies: list[TalkerReply]) -> tuple[list[list[int]], torch.Tensor]:
        """(codes [groups][replies], the sum of what all codes of a frame are embedded as)"""
        predictor = self._model.code_predictor
        first = [reply.code for reply in replies if reply.code is not None]
        embedded = self._model.get_input_embeddings()(self._column(first))
        codes, summed = [first], embedded
        given = torch.cat([torch.cat([reply.hidden for reply in replies]), embedded], dim=1)
        cache = None
        for group in range(self._config.num_code_groups - 1):
            out = predictor.model(inputs_embeds=given, cache=cache, use_cache=True)
            cache = out.cache
            scores = predictor.lm_head[group](out.last_hidden_state[:, -1])
            picked = [
                pick(row, self._residual, reply.generator)
                for row, reply in zip(scores, replies, strict=True)
            ]
            given = predictor.get_input_embeddings()[group](self._column(picked))
            codes.append(picked)
            summed = summed + given
        return codes, summed

    def _column(self, ids: list[Any]) -> torch.Tensor:
        return torch.tensor(ids, device=self._device)[:, None]

    def _forward(
        self,
        rows: torch.Tensor,
        positions: torch.Tensor,
        cache: Any,
        mask: torch.Tensor | None = None,
    ) -> Any:
        return self._model(
            inputs_embeds=rows,
            position_ids=positions.to(self._device).expand(3, -1, -1),
            attention_mask=mask,
            cache=cache,
            use_cache=True,
            output_hidden_states=True,
            generation_step=0,
        )

    def _take_out(self, replies: list[TalkerReply], out: Any) -> None:
        """The first code of each reply's next frame, and what its other codes come from."""
        hidden = out.hidden_states[0][-1][:, -1:]
        scores = out.logits[:, -1].float().masked_fill(self._suppressed, float("-inf"))
        for row, reply in enumerate(replies):
            reply.hidden = hidden[row : row + 1]
            reply.code = pick(scores[row], self._first, reply.generator, reply.seen)

    def _speaker(self, voice: str) -> int:
        """A speaker of the checkpoint: the one of this name, the configured one, or any."""
        name = self._voices.get(voice, voice.lower())
        if name in self._speakers:
            return int(self._speakers[name])
        others = sorted(self._speakers)
        return int(self._speakers[others[sum(voice.encode()) % len(others)]])
