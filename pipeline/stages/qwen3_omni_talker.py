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

from pipeline.messages import Condition, End, Frames, Plan, Start
from pipeline.stage import Array, Batch, Input, Output, Stage, StageError, StageSettings, Work
from pipeline.stages.omni_checkpoint import (
    CheckpointError,
    checkpoint_folder,
    dtype_of,
    load_part,
    require_family,
    usable_device,
)
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
class _Reply:
    start: Start
    generator: torch.Generator
    words: WordClock
    parts: list[Array] = field(default_factory=list)
    prompt: Array | None = None
    heard: list[int] = field(default_factory=list)  # which of its rows are of a sound
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

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._replies: dict[str, _Reply] = {}

    def load(self) -> None:
        """Load the Talker out of the checkpoint, and make a frame."""
        from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeTalkerForConditionalGeneration

        options = self._settings.options
        folder = checkpoint_folder(options)
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
        self._replies[start.request_id] = _Reply(
            start, torch.Generator().manual_seed(start.seed), WordClock(FRAMES_PER_S)
        )

    def close(self, request_id: str) -> None:
        """Drop a reply."""
        self._replies.pop(request_id, None)

    @torch.inference_mode()
    def step(self, batch: Batch) -> list[Output]:
        """A frame of each reply whose text is there."""
        return [output for work in batch for output in self._advance(work)]

    def _advance(self, work: Work) -> list[Output]:
        reply = self._replies[work.request_id]
        for given in work.inputs:
            self._take_in(reply, given)
        if reply.code is None:
            if not reply.rows:
                return [Output(work.request_id, End())] if reply.ended else []
            self._begin(reply)
        over = reply.code == self._config.codec_eos_token_id or reply.frames >= self._limit
        if over:
            return self._end(reply)
        text = self._next_text(reply)
        if text is None:
            return []
        frame = self._frame(reply, text)
        reply.frames += 1
        work.more = True
        spans = reply.words.at(reply.frames, over=reply.ended and reply.eos_given)
        return [Output(work.request_id, Frames(alignment=spans, exact=False), frame)]

    def _take_in(self, reply: _Reply, given: Input) -> None:
        match given.message:
            case Condition(kind="rows", meta=meta, text=text):
                if given.array is None:
                    raise StageError(reply.start.request_id, "bad_rows", "rows are missing")
                # The array lies in a slot that goes back after this step.
                rows = np.array(given.array)
                if meta.get("rows") == "prompt":
                    reply.parts.append(rows)
                    reply.heard = list(meta.get("heard", ()))
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

    def _end(self, reply: _Reply) -> list[Output]:
        request_id = reply.start.request_id
        outputs = []
        if spans := reply.words.at(reply.frames, over=True, rest=True):
            empty = np.zeros((0, self._config.num_code_groups), np.int32)
            outputs.append(Output(request_id, Frames(alignment=spans, exact=False), empty))
        return [*outputs, Output(request_id, End())]

    # -- the model -------------------------------------------------------------------------------

    def _begin(self, reply: _Reply) -> None:
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
        self._forward(reply, torch.cat([turns, text], dim=1))

    def _project(self, rows: Array) -> torch.Tensor:
        tensor = torch.from_numpy(rows).to(self._device, self._dtype)
        projected: torch.Tensor = self._model.text_projection(tensor[None])
        return projected

    def _next_text(self, reply: _Reply) -> torch.Tensor | None:
        """What goes with the next frame; None if the Thinker has not said it yet."""
        if reply.rows:
            return self._project(reply.rows.popleft())
        if not reply.ended:
            return None
        text = reply.pad if reply.eos_given else reply.eos
        reply.eos_given = True
        assert isinstance(text, torch.Tensor)
        return text

    def _frame(self, reply: _Reply, text: torch.Tensor) -> Array:
        """All codes of this frame, and then the first of the next. [1, groups]"""
        assert reply.code is not None
        reply.seen.add(reply.code)
        codes, embedded = self._residuals(reply)
        self._forward(reply, embedded + text)
        return np.array([codes], np.int32)

    def _residuals(self, reply: _Reply) -> tuple[list[int], torch.Tensor]:
        predictor = self._model.code_predictor
        first = torch.tensor([[reply.code]], device=self._device)
        embedded = self._model.get_input_embeddings()(first)
        codes, summed = [int(first)], embedded
        given, cache = torch.cat([reply.hidden, embedded], dim=1), None
        for group in range(self._config.num_code_groups - 1):
            out = predictor.model(inputs_embeds=given, cache=cache, use_cache=True)
            cache = out.cache
            scores = predictor.lm_head[group](out.last_hidden_state[0, -1])
            code = pick(scores, self._residual, reply.generator)
            given = predictor.get_input_embeddings()[group](
                torch.tensor([[code]], device=self._device)
            )
            codes.append(code)
            summed = summed + given
        return codes, summed

    def _forward(self, reply: _Reply, rows: torch.Tensor) -> None:
        end = reply.position + rows.shape[1]
        positions = torch.arange(reply.position, end, device=self._device).expand(3, 1, -1)
        out = self._model(
            inputs_embeds=rows,
            position_ids=positions,
            cache=reply.cache,
            use_cache=True,
            output_hidden_states=True,
            generation_step=0,
        )
        reply.cache, reply.position = out.cache, end
        reply.hidden = out.hidden_states[0][-1][:, -1:]
        scores = out.logits[0, -1].float()
        scores = scores.masked_fill(self._suppressed, float("-inf"))
        reply.code = pick(scores, self._first, reply.generator, reply.seen)

    def _speaker(self, voice: str) -> int:
        """A speaker of the checkpoint: the one of this name, the configured one, or any."""
        name = self._voices.get(voice, voice.lower())
        if name in self._speakers:
            return int(self._speakers[name])
        others = sorted(self._speakers)
        return int(self._speakers[others[sum(voice.encode()) % len(others)]])
