"""Qwen2.5-Omni's own `generate()`, and its three stages."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from omni_oracle import Stages, loaded
from transformers import Qwen2_5OmniForConditionalGeneration, WhisperFeatureExtractor
from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import (
    _get_feat_extract_output_lengths,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from pipeline.messages import PromptItem
from pipeline.stages.omni_text import OmniTokenizer
from pipeline.stages.qwen2_5_omni_talker import Qwen25OmniTalker
from pipeline.stages.qwen2_5_omni_thinker import Qwen25OmniThinker
from pipeline.stages.qwen2_5_omni_voicebox import Qwen25OmniVoiceBox

IM_END, AUDIO, IMAGE = 301, 308, 309
PAD, END = 64, 66
MAX_CODES = 80


@dataclass(frozen=True, slots=True)
class Generated25:
    """prompt, tokens: of the reply. codes: [frames].

    wave: float32, of one go with the seed's noise.
    """

    prompt: list[int]
    tokens: list[int]
    codes: NDArray[np.int64]
    wave: NDArray[np.float32]


class Official25:
    """The whole model in one piece."""

    def __init__(self, folder: Path) -> None:
        kind: Any = Qwen2_5OmniForConditionalGeneration
        self._model: Any = kind.from_pretrained(folder, dtype=torch.float32)
        self._tokenizer = OmniTokenizer(folder)
        self._see: Any = Qwen2VLImageProcessorPil.from_pretrained(folder)

    def _inputs(
        self,
        items: Sequence[PromptItem],
        recordings: Sequence[NDArray[np.int16]],
        pictures: Sequence[NDArray[np.uint8]],
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """As the official processor makes them: each recording with silence up to five minutes."""
        prompt = self._tokenizer.prompt(items)
        given: dict[str, Any] = {}
        if recordings:
            extract: Any = WhisperFeatureExtractor(  # type: ignore[no-untyped-call]
                feature_size=128, chunk_length=300, return_attention_mask=True
            )
            made = extract(
                [samples.astype(np.float32) / 32768 for samples in recordings],
                sampling_rate=16_000,
                return_tensors="pt",
                return_attention_mask=True,
                padding="max_length",
            )
            given["input_features"] = made["input_features"]
            given["feature_attention_mask"] = made["attention_mask"]
            lengths: Any = _get_feat_extract_output_lengths
            prompt = _spread(prompt, AUDIO, lengths(made["attention_mask"].sum(-1)).tolist())
        if pictures:
            made = self._see(images=list(pictures), return_tensors="pt")
            # Without the prefix the Talker gets the pixels too, and its `generate()` refuses them.
            given["thinker_pixel_values"] = made["pixel_values"]
            given["image_grid_thw"] = made["image_grid_thw"]
            prompt = _spread(prompt, IMAGE, (made["image_grid_thw"].prod(-1) // 4).tolist())
        return torch.tensor([prompt]), given

    def generate(
        self,
        items: Sequence[PromptItem],
        tokens: int,
        speaker: str,
        seed: int = 0,
        recordings: Sequence[NDArray[np.int16]] = (),
        pictures: Sequence[NDArray[np.uint8]] = (),
    ) -> Generated25:
        """Greedy. seed: of the noise that the sound is made from."""
        ids, given = self._inputs(items, recordings, pictures)
        model, seen = self._model, dict[str, Any]()
        decode = model.token2wav.forward

        def kept(codes: torch.Tensor, **options: Any) -> torch.Tensor:
            seen["codes"] = codes
            torch.manual_seed(seed)
            wave: torch.Tensor = decode(codes, **options)
            return wave

        model.token2wav.forward = kept
        speak = model.talker.forward

        @functools.wraps(speak)
        def masked(**options: Any) -> Any:
            # Without a mask, which `generate()` may drop where it hides nothing, the Talker's
            # `forward` leaves out the codes that its prompt ends with, and with that what it was
            # trained on.
            if options.get("attention_mask") is None:
                cache = options.get("cache")
                given = options.get("inputs_embeds")
                count = options["input_ids"].shape[1] if given is None else given.shape[1]
                length = count + (cache.get_seq_length() if cache is not None else 0)
                options["attention_mask"] = torch.ones((1, length), dtype=torch.long)
            return speak(**options)

        model.talker.forward = masked
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its own way to call itself
                reply, wave = model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    speaker=speaker,
                    thinker_max_new_tokens=tokens,
                    thinker_do_sample=False,
                    thinker_eos_token_id=IM_END,
                    talker_max_new_tokens=MAX_CODES,
                    talker_do_sample=False,
                    talker_eos_token_id=[PAD, END],
                    **given,
                )
        finally:
            model.token2wav.forward = decode
            model.talker.forward = speak
        made = reply[0, ids.shape[1] :].tolist()
        return Generated25(ids[0].tolist(), made, seen["codes"][0].numpy(), wave.numpy())


def qwen25_stages(folder: Path, greedy: bool = True, max_codes: int = MAX_CODES) -> Stages:
    """Of Qwen2.5-Omni. greedy: its Talker."""
    model = {"model": str(folder)}
    return Stages(
        loaded(Qwen25OmniThinker, **model),
        loaded(Qwen25OmniTalker, greedy=greedy, max_frames=max_codes, **model),
        loaded(Qwen25OmniVoiceBox, **model),
    )


def _spread(prompt: list[int], token: int, counts: list[int]) -> list[int]:
    """Each placeholder in turn, repeated."""
    left = iter(counts)
    return [one for id_ in prompt for one in ([token] * next(left) if id_ == token else [id_])]
