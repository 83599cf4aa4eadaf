"""The model's own `generate()`, which the three stages must agree with to the last token."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from stage_driver import StageDriver
from transformers import Qwen3OmniMoeForConditionalGeneration, WhisperFeatureExtractor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import (
    _get_feat_extract_output_lengths,
)

from pipeline.messages import (
    PICTURE,
    RECORDING,
    Audio,
    Condition,
    End,
    Frames,
    Picture,
    Plan,
    PromptItem,
    Sampling,
    Start,
    TextDelta,
)
from pipeline.stage import Input, Output, Stage, StageSettings
from pipeline.stages.omni_text import OmniTokenizer
from pipeline.stages.qwen3_omni_talker import Qwen3OmniTalker
from pipeline.stages.qwen3_omni_thinker import Qwen3OmniThinker
from pipeline.stages.qwen3_omni_voicebox import Qwen3OmniVoiceBox

SEEN = [
    ("question", [f"{PICTURE}What is that?"], [(70, 100)]),
    ("two in one turn", [f"{PICTURE} or\n{PICTURE}?"], [(96, 64), (200, 90)]),
    ("in an earlier turn", [PICTURE, "I see.", f"And {PICTURE}?"], [(33, 90), (64, 300)]),
    ("only earlier", [f"Look: {PICTURE}", "I see.", "What was it?"], [(90, 140)]),
]
"""Conversations with pictures: a name, the turns, and each picture's height and width."""

WHOLE_HISTORY = 10_000
GREEDY = Sampling(temperature=0.0, max_tokens=10)
MAX_FRAMES = 24


@dataclass(frozen=True, slots=True)
class Generated:
    """tokens: of the reply. codes: [groups, frames]. wave: float32, decoded in one go."""

    tokens: list[int]
    codes: NDArray[np.int64]
    wave: NDArray[np.float32]


class Official:
    """The whole model in one piece."""

    def __init__(self, folder: Path) -> None:
        self._model: Any = Qwen3OmniMoeForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32
        )
        self._tokenizer = OmniTokenizer(folder)
        self._see: Any = Qwen2VLImageProcessorPil.from_pretrained(folder)

    def write(
        self,
        items: Sequence[PromptItem],
        tokens: int,
        recordings: Sequence[NDArray[np.int16]] = (),
        pictures: Sequence[NDArray[np.uint8]] = (),
    ) -> list[int]:
        """The Thinker's greedy tokens alone."""
        ids, given = self._inputs(items, recordings, pictures)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reply = self._model.thinker.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=tokens,
                do_sample=False,
                eos_token_id=self._model.config.im_end_token_id,
                **given,
            )
        told: list[int] = reply[0, ids.shape[1] :].tolist()
        return told

    def _inputs(
        self,
        items: Sequence[PromptItem],
        recordings: Sequence[NDArray[np.int16]],
        pictures: Sequence[NDArray[np.uint8]],
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        prompt = self._tokenizer.prompt(items)
        given: dict[str, Any] = {}
        if recordings:
            extract: Any = WhisperFeatureExtractor(  # type: ignore[no-untyped-call]
                feature_size=128, return_attention_mask=True
            )
            floats = [samples.astype(np.float32) / 32768 for samples in recordings]
            made = extract(
                floats,
                sampling_rate=16_000,
                return_tensors="pt",
                return_attention_mask=True,
                padding=True,
                truncation=False,
            )
            given["input_features"] = made["input_features"]
            given["feature_attention_mask"] = made["attention_mask"]
            lengths: Any = _get_feat_extract_output_lengths
            counts = lengths(made["attention_mask"].sum(-1)).tolist()
            places = iter(counts)
            pad = self._model.config.thinker_config.audio_token_id
            prompt = [t for one in prompt for t in ([one] * next(places) if one == pad else [one])]
        if pictures:
            made = self._see(images=list(pictures), return_tensors="pt")
            given |= {key: made[key] for key in ("pixel_values", "image_grid_thw")}
            places = iter((made["image_grid_thw"].prod(-1) // 4).tolist())
            pad = self._model.config.thinker_config.image_token_id
            prompt = [t for one in prompt for t in ([one] * next(places) if one == pad else [one])]
        return torch.tensor([prompt]), given

    def generate(
        self,
        items: Sequence[PromptItem],
        tokens: int,
        speaker: str,
        recordings: Sequence[NDArray[np.int16]] = (),
        pictures: Sequence[NDArray[np.uint8]] = (),
    ) -> Generated:
        """Greedy, both the text and the first codes; the others are the official code's choice."""
        ids, given = self._inputs(items, recordings, pictures)
        seen: dict[str, Any] = {}
        model = self._model
        decode = model.code2wav.chunked_decode
        model.code2wav.chunked_decode = lambda codes, **options: seen.setdefault("codes", codes)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its own way to call itself
                reply, _ = model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    speaker=speaker,
                    thinker_max_new_tokens=tokens,
                    thinker_do_sample=False,
                    thinker_eos_token_id=model.config.im_end_token_id,
                    talker_max_new_tokens=MAX_FRAMES + 1,
                    talker_do_sample=False,
                    **given,
                )
        finally:
            model.code2wav.chunked_decode = decode
        with torch.inference_mode():
            wave = model.code2wav(seen["codes"])[0, 0].numpy()
        return Generated(reply[0, ids.shape[1] :].tolist(), seen["codes"][0].numpy(), wave)


@dataclass(frozen=True, slots=True)
class Streamed:
    """What the three stages made."""

    tokens: list[int]
    text: str
    codes: NDArray[np.int64]
    samples: NDArray[np.int16]
    chunks: list[int]
    end: End


@dataclass(frozen=True, slots=True)
class Stages:
    """The three stages of a model, loaded. Driven one after the other."""

    thinker: Stage
    talker: Stage
    voicebox: Stage

    @property
    def in_order(self) -> tuple[Stage, Stage, Stage]:
        return self.thinker, self.talker, self.voicebox

    def run(
        self,
        start: Start,
        recordings: Sequence[NDArray[np.int16]] = (),
        pictures: Sequence[NDArray[np.uint8]] = (),
    ) -> Streamed:
        """A whole reply."""
        thought = StageDriver(self.thinker).run(start, given(recordings, pictures))
        spoken = StageDriver(self.talker).run(start, fed(thought, Condition))
        heard = StageDriver(self.voicebox).run(start, fed(spoken, Frames))
        return streamed(thought, spoken, heard)


def qwen3_stages(folder: Path, **voicebox: Any) -> Stages:
    """Of Qwen3-Omni, greedy. voicebox: options of it."""
    model = {"model": str(folder)}
    return Stages(
        loaded(Qwen3OmniThinker, **model),
        loaded(Qwen3OmniTalker, greedy=True, max_frames=MAX_FRAMES, **model),
        loaded(Qwen3OmniVoiceBox, **model, **voicebox),
    )


def loaded(kind: Callable[[StageSettings], Stage], **options: Any) -> Stage:
    """A stage with these options, ready."""
    stage = kind(StageSettings(options=options))
    stage.load()
    return stage


def given(
    recordings: Sequence[NDArray[np.int16]] = (), pictures: Sequence[NDArray[np.uint8]] = ()
) -> list[Input]:
    """What the Thinker gets: recordings in pieces that end anywhere, and pictures in parts."""
    if not recordings and not pictures:
        return []
    whole = np.concatenate([np.zeros(0, np.int16), *recordings])
    pieces = np.split(whole, range(7000, len(whole), 7000)) if len(whole) else []
    sounds = [Input(Audio(len(piece)), piece) for piece in pieces]
    return [*sounds, *shown(*pictures), Input(End())]


def shown(*pictures: NDArray[np.uint8]) -> list[Input]:
    """Pictures on their way to the Thinker, each in three parts."""
    return [
        Input(Picture(len(rows)), rows)
        for picture in pictures
        for rows in np.array_split(picture.reshape(len(picture), -1), 3)
    ]


def pictured(start: Start, sizes: list[tuple[int, int]]) -> tuple[Start, list[NDArray[np.uint8]]]:
    """The same with pictures of these sizes where its texts have a place for them."""
    random = np.random.default_rng(sum(height for height, _ in sizes))
    left = list(sizes)
    items = tuple(
        replace(item, pictures=tuple(left.pop(0) for _ in range(item.text.count(PICTURE))))
        for item in start.items
    )
    pictures = [random.integers(0, 256, (*size, 3)).astype(np.uint8) for size in sizes]
    return replace(start, items=items), pictures


def heard(start: Start, lengths: Sequence[int]) -> tuple[Start, list[NDArray[np.int16]]]:
    """The same with recordings of these lengths where its texts have a place for them."""
    random = np.random.default_rng(sum(lengths))
    left = list(lengths)
    items = tuple(
        replace(item, recordings=tuple(left.pop(0) for _ in range(item.text.count(RECORDING))))
        for item in start.items
    )
    return replace(start, items=items), [melody(size, random) for size in lengths]


def melody(size: int, random: np.random.Generator) -> NDArray[np.int16]:
    """Tones of a tenth of a second, each of another pitch and loudness."""
    count = -(-size // 1600)
    pitches = np.repeat(random.uniform(0.05, 1.5, count), 1600)[:size]
    levels = np.repeat(random.uniform(100, 12_000, count), 1600)[:size]
    return (levels * np.sin(np.cumsum(pitches))).astype(np.int16)


def fed(outputs: Sequence[Output], kind: type) -> list[Input]:
    """What of a stage's outputs goes into the next."""
    return [Input(o.message, o.array) for o in outputs if isinstance(o.message, kind | End)]


def streamed(
    thought: Sequence[Output], spoken: Sequence[Output], heard: Sequence[Output]
) -> Streamed:
    """Put the outputs of the stages together."""
    deltas = [o.message for o in thought if isinstance(o.message, TextDelta)]
    frames = [o.array for o in spoken if isinstance(o.message, Frames) and o.array is not None]
    chunks = [o.array for o in heard if isinstance(o.message, Audio) and o.array is not None]
    (end,) = [o.message for o in thought if isinstance(o.message, End)]
    return Streamed(
        tokens=[token for delta in deltas for token in delta.token_ids],
        text="".join(delta.text for delta in deltas),
        codes=np.concatenate(frames).T.astype(np.int64),
        samples=np.concatenate([np.zeros(0, np.int16), *chunks]),
        chunks=[len(chunk) for chunk in chunks],
        end=end,
    )


def request(name: str, *turns: str, system: str = "", **fields: Any) -> Start:
    """User, assistant, user …"""
    items = [PromptItem("system", system)] if system else []
    items += [
        PromptItem("assistant" if number % 2 else "user", text) for number, text in enumerate(turns)
    ]
    start = Start(name, Plan.SPEECH, items=tuple(items), voice="ethan", sampling=GREEDY)
    return replace(start, **fields)


def png(picture: NDArray[np.uint8]) -> str:
    """A picture as a data URI."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
