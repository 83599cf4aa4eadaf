"""Recordings in the prompt of a Qwen omni model: as features, and as so many tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import WhisperFeatureExtractor

from pipeline.messages import INPUT_RATE_HZ, Start
from pipeline.stage import Array, StageError
from pipeline.stages.omni_text import OmniTokenizer

WINDOW = 400
"""Samples that a frame is made of. Nothing shorter can be heard: it gets silence after it."""

CHUNK_FRAMES, CHUNK_TOKENS = 100, 13


class OmniHearing:
    """Of one Thinker. token: the id that stands for a moment of sound."""

    def __init__(
        self, tokenizer: OmniTokenizer, config: Any, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.token: int = config.audio_token_id
        self._tokenizer = tokenizer
        self._device = device
        self._dtype = dtype
        self._extract: Any = WhisperFeatureExtractor(  # type: ignore[no-untyped-call]
            feature_size=config.audio_config.num_mel_bins,
            sampling_rate=INPUT_RATE_HZ,
            hop_length=160,
            n_fft=WINDOW,
            return_attention_mask=True,
        )

    def take_in(
        self, ids: list[int], start: Start, parts: list[Array]
    ) -> tuple[list[int], dict[str, Any]]:
        """The prompt with as many tokens for each recording as it lasts, and the model's inputs.

        parts: int16 samples of all recordings, one after the other.
        """
        lengths = [length for item in start.items for length in item.recordings]
        if not lengths:
            return spread(ids, self.token, [], start, "recordings"), {}
        samples = np.concatenate([np.zeros(0, np.int16), *parts]).astype(np.float32) / 32768
        recordings = [
            np.pad(one, (0, max(0, WINDOW - len(one))))
            for one in np.split(samples, np.cumsum(lengths)[:-1])
        ]
        features = self._extract(
            recordings,
            sampling_rate=INPUT_RATE_HZ,
            **self._padding(max(map(len, recordings))),
            truncation=False,
            return_attention_mask=True,
            return_tensors="pt",
        )
        mask = features["attention_mask"].to(self._device)
        counts = [self.tokens_of(int(frames)) for frames in mask.sum(dim=1)]
        return spread(ids, self.token, counts, start, "recordings"), {
            "input_features": features["input_features"].to(self._device, self._dtype),
            "feature_attention_mask": mask,
        }

    def _padding(self, longest: int) -> dict[str, Any]:
        """As the model's own processor pads recordings, the longest of which has so many samples.

        It decides whether the last frames are made with silence after them.
        """
        return {"padding": True}

    @staticmethod
    def tokens_of(frames: int) -> int:
        """How many tokens the audio encoder makes of so many frames of 10 ms."""
        chunks, rest = divmod(frames, CHUNK_FRAMES)
        for _ in range(3):  # its three convolutions, each of which halves
            rest = (rest + 1) // 2
        return chunks * CHUNK_TOKENS + rest


class Qwen25OmniHearing(OmniHearing):
    """Of Qwen2.5-Omni, whose processor pads each recording with silence, to five minutes."""

    def _padding(self, longest: int) -> dict[str, Any]:
        """Beyond one window silence changes nothing."""
        return {"padding": "max_length", "max_length": longest + WINDOW}

    @staticmethod
    def tokens_of(frames: int) -> int:
        """How many tokens the audio encoder makes: a convolution halves, and a pooling after it."""
        return ((frames + 1) // 2) // 2


def spread(ids: list[int], token: int, counts: list[int], start: Start, what: str) -> list[int]:
    """Each placeholder in turn, repeated. what: stands there, in words.

    Raises StageError if there are not as many places as counts.
    """
    if ids.count(token) != len(counts):
        fault = f"{len(counts)} {what} for {ids.count(token)} places in the prompt"
        raise StageError(start.request_id, "invalid_prompt", fault)
    left = iter(counts)
    return [one for id_ in ids for one in ([token] * next(left) if id_ == token else [id_])]
