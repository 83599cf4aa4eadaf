"""Qwen3-Omni through its three stages, held against the model's own `generate()`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from omni_crowd import check_crowd
from omni_oracle import (
    SEEN,
    WHOLE_HISTORY,
    Official,
    Stages,
    pictured,
    qwen3_stages,
    request,
    shown,
)
from safetensors.torch import load_file, save_file
from stage_driver import StageDriver
from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeTalkerForConditionalGeneration
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import (
    _get_feat_extract_output_lengths,
)

from pipeline.messages import (
    PICTURE,
    RECORDING,
    Audio,
    Condition,
    End,
    Failed,
    Frames,
    Plan,
    PromptItem,
    Start,
    TextDelta,
)
from pipeline.models.tiny_qwen3_omni import CODEBOOK, GROUPS, make_tiny_qwen3_omni
from pipeline.stage import Input, Stage, StageError, StageSettings, Work
from pipeline.stages import omni_checkpoint
from pipeline.stages.omni_checkpoint import CheckpointError
from pipeline.stages.omni_hearing import OmniHearing
from pipeline.stages.qwen3_omni_talker import Qwen3OmniTalker
from pipeline.stages.qwen3_omni_thinker import Qwen3OmniThinker
from pipeline.stages.qwen3_omni_voicebox import Qwen3OmniVoiceBox

REQUESTS = [
    request("short", "hi there"),
    request("system", "What is the capital?", system="You are kind."),
    request("turns", "hello", "hey you", "and now?", system="be nice"),
    request("other script", "안녕하세요, how are you?"),
    request("long", "tell me " * 60),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("tiny") / "qwen3-omni"
    make_tiny_qwen3_omni(path)
    yield path


@pytest.fixture(scope="module")
def official(folder: Path) -> Official:
    return Official(folder)


@pytest.fixture(scope="module")
def stages(folder: Path) -> Stages:
    return qwen3_stages(folder, context=WHOLE_HISTORY)


@pytest.mark.parametrize("start", REQUESTS, ids=lambda start: start.request_id)
def test_tokens_codes_and_sound_are_the_official_ones(
    official: Official, stages: Stages, start: Start
) -> None:
    wanted = official.generate(start.items, 10, "ethan")
    got = stages.run(start)
    assert got.tokens == [t for t in wanted.tokens if t != 301][: len(got.tokens)]
    assert len(wanted.codes[0]) > 4
    assert np.array_equal(got.codes, wanted.codes)
    assert len(got.samples) == len(wanted.wave)
    assert np.abs(wanted.wave).max() > 0.01
    assert np.abs(got.samples / 32767 - wanted.wave).max() < 1e-4
    assert len(got.chunks) > 1


HEARD = [
    ("question", [f"Listen: {RECORDING} What was that?"], [16_000]),
    ("odd lengths", [RECORDING], [12_345]),
    ("two in one turn", [f"{RECORDING}\nand\n{RECORDING}"], [8_000, 30_000]),
    ("in an earlier turn", [RECORDING, "I see.", f"And {RECORDING}?"], [20_000, 5_000]),
]


@pytest.mark.parametrize(("name", "turns", "lengths"), HEARD, ids=[one[0] for one in HEARD])
def test_recordings_are_heard_as_the_official_code_hears_them(
    official: Official, stages: Stages, name: str, turns: list[str], lengths: list[int]
) -> None:
    random = np.random.default_rng(len(name))
    recordings = [random.integers(-8000, 8000, size).astype(np.int16) for size in lengths]
    plain = request(name, *turns, system="be nice")
    left = list(lengths)
    items = tuple(
        replace(item, recordings=tuple(left.pop(0) for _ in range(item.text.count(RECORDING))))
        for item in plain.items
    )
    wanted = official.generate(items, 10, "ethan", recordings)
    got = stages.run(replace(plain, items=items), recordings)
    assert got.tokens == [token for token in wanted.tokens if token != 301][: len(got.tokens)]
    assert np.array_equal(got.codes, wanted.codes)
    assert np.abs(got.samples / 32767 - wanted.wave).max() < 1e-4


def test_what_is_heard_reaches_the_talker(stages: Stages) -> None:
    item = PromptItem("user", f"Listen: {RECORDING}", recordings=(16_000,))
    start = replace(REQUESTS[0], items=(item,))
    noise = np.random.default_rng(1).integers(-8000, 8000, 16_000).astype(np.int16)
    rows = []
    for samples in (noise, noise[::-1].copy(), np.zeros_like(noise)):
        inputs = [Input(Audio(len(samples)), samples), Input(End())]
        for output in StageDriver(stages.thinker).run(start, inputs):
            if isinstance(output.message, Condition) and (
                heard := output.message.meta.get("heard")
            ):
                assert output.array is not None
                assert len(heard) == 13
                rows.append(output.array[heard])
    assert len(rows) == 3
    assert np.abs(rows[0] - rows[1]).max() > 1e-5
    assert np.abs(rows[0] - rows[2]).max() > 1e-5


@pytest.mark.parametrize("frames", range(1, 320, 7))
def test_a_recording_has_as_many_tokens_as_the_encoder_makes(frames: int) -> None:
    official: Any = _get_feat_extract_output_lengths
    assert OmniHearing.tokens_of(frames) == int(official(torch.tensor(frames)))


def test_recordings_that_are_not_there_fail_their_request(stages: Stages) -> None:
    item = PromptItem("user", RECORDING, recordings=(16_000,))
    start = replace(REQUESTS[0], request_id="deaf", items=(item,))
    inputs = [Input(Audio(10), np.zeros(10, np.int16)), Input(End())]
    outputs = StageDriver(stages.thinker).run(start, inputs)
    assert [output.message for output in outputs] == [Failed("bad_audio", "recordings are missing")]


@pytest.mark.parametrize(("name", "turns", "sizes"), SEEN, ids=[one[0] for one in SEEN])
def test_pictures_are_seen_as_the_official_code_sees_them(
    official: Official,
    stages: Stages,
    name: str,
    turns: list[str],
    sizes: list[tuple[int, int]],
) -> None:
    start, pictures = pictured(request(name, *turns, system="be nice"), sizes)
    wanted = official.generate(start.items, 10, "ethan", pictures=pictures)
    got = stages.run(start, pictures=pictures)
    assert got.tokens == [token for token in wanted.tokens if token != 301][: len(got.tokens)]
    assert np.array_equal(got.codes, wanted.codes)
    assert np.abs(got.samples / 32767 - wanted.wave).max() < 1e-4
    other = stages.run(start, pictures=[255 - picture for picture in pictures])
    assert other.tokens != got.tokens or not np.array_equal(other.codes, got.codes)


def test_pictures_and_recordings_are_told_apart(official: Official, stages: Stages) -> None:
    # With both, the official code finds the Thinker's tokens and then fails at the Talker, whose
    # configuration lacks what it looks for: so only the text is compared.
    noise = np.random.default_rng(3).integers(-8000, 8000, 20_000).astype(np.int16)
    text = f"{RECORDING} and {PICTURE} are there, {RECORDING}"
    start, pictures = pictured(request("both", text), [(70, 100)])
    item = replace(start.items[0], recordings=(12_000, 8_000))
    recordings = [noise[:12_000], noise[12_000:]]
    wanted = official.write([item], 10, recordings, pictures)
    got = stages.run(replace(start, items=(item,)), recordings, pictures)
    assert got.tokens == [token for token in wanted if token != 301][: len(got.tokens)]
    assert len(got.samples) > 0


def test_pictures_that_are_not_there_fail_their_request(stages: Stages) -> None:
    start, pictures = pictured(request("blind", PICTURE), [(70, 100)])
    inputs = [*shown(pictures[0])[:2], Input(End())]
    outputs = StageDriver(stages.thinker).run(start, inputs)
    assert [output.message for output in outputs] == [Failed("bad_image", "pictures are missing")]


def test_by_default_the_sound_is_within_a_stated_bound(folder: Path, official: Official) -> None:
    # The decoder looks further back than the frames that are decoded again: see docs/omni.md.
    start = request("long", "tell me more")
    wanted = official.generate(start.items, 10, "ethan")
    got = qwen3_stages(folder).run(start)
    assert len(got.samples) == len(wanted.wave)
    difference = got.samples / 32767 - wanted.wave
    assert np.sqrt(np.mean(difference**2) / np.mean(wanted.wave**2)) < 0.01


def test_a_text_alone_has_no_rows_for_a_talker(stages: Stages) -> None:
    start = replace(REQUESTS[0], plan=Plan.TEXT)
    thought = StageDriver(stages.thinker).run(start)
    assert not any(isinstance(output.message, Condition) for output in thought)
    spoken = StageDriver(stages.thinker).run(REQUESTS[0])
    assert any(isinstance(output.message, Condition) for output in spoken)
    assert [o.message for o in thought if isinstance(o.message, TextDelta)] == [
        o.message for o in spoken if isinstance(o.message, TextDelta)
    ]


def test_requests_in_between_each_other_are_as_if_alone(stages: Stages) -> None:
    check_crowd(stages, seed=5)


# -- Code2Wav --------------------------------------------------------------------------------------


def decode(
    voicebox: Stage, codes: NDArray[np.int32], cuts: list[int], lead_ms: float | None
) -> NDArray[np.int16]:
    """Frames given in pieces that end at the cuts."""
    voicebox.open(Start("codes", Plan.SPEECH))
    chunks = []
    pieces = [Input(Frames(), piece) for piece in np.split(codes, cuts)]
    for given in [*pieces, Input(End())]:
        work = Work("codes", [given], lead_ms=lead_ms)
        while True:
            outputs = voicebox.step([work])
            chunks += [o.array for o in outputs if isinstance(o.message, Audio)]
            if not work.more:
                break
            work = Work("codes", lead_ms=lead_ms)
    voicebox.close("codes")
    return np.concatenate([chunk for chunk in chunks if chunk is not None])


@pytest.mark.parametrize("lead_ms", [None, 0.0, 3000.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_schedule_of_chunks_loses_a_sample_or_makes_a_seam(
    stages: Stages, seed: int, lead_ms: float | None
) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, CODEBOOK, (60, GROUPS)).astype(np.int32)
    whole = decode(stages.voicebox, codes, [], 0.0)
    cuts = sorted(random.choice(59, 12, replace=False) + 1)
    cut = decode(stages.voicebox, codes, list(map(int, cuts)), lead_ms)
    # Each call's last 555 samples need the next frame: other servers lose them at every boundary.
    assert len(cut) == 60 * 1920 - 555
    assert np.abs(cut.astype(int) - whole).max() <= 1


def test_codes_that_are_none_fail_their_request(stages: Stages) -> None:
    for wrong in (
        np.full((1, GROUPS), CODEBOOK),
        np.zeros((1, GROUPS + 1)),
        np.full((1, GROUPS), -1),
    ):
        with pytest.raises(StageError, match="codes"):
            decode(stages.voicebox, wrong.astype(np.int32), [], None)
        stages.voicebox.close("codes")


# -- starting --------------------------------------------------------------------------------------

KINDS = [
    (Qwen3OmniThinker, "thinker."),
    (Qwen3OmniTalker, "talker."),
    (Qwen3OmniVoiceBox, "code2wav."),
]


def load(kind: Callable[[StageSettings], Stage], device: str = "cpu", **options: Any) -> None:
    kind(StageSettings(device=device, options=options)).load()


@pytest.mark.parametrize(("kind", "prefix"), KINDS, ids=[prefix for _, prefix in KINDS])
@pytest.mark.parametrize("damage", ["missing", "renamed"])
def test_a_weight_that_is_not_there_is_named(
    kind: Callable[[StageSettings], Stage], prefix: str, damage: str, folder: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = load_file(broken / "model.safetensors")
    name = sorted(one for one in weights if one.startswith(prefix))[3]
    tensor = weights.pop(name)
    if damage == "renamed":
        weights[name + "_renamed"] = tensor
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"missing|not known"):
        load(kind, model=str(broken))


@pytest.mark.parametrize(("kind", "prefix"), KINDS, ids=[prefix for _, prefix in KINDS])
def test_what_cannot_be_loaded_is_said(
    kind: Callable[[StageSettings], Stage], prefix: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match="must name the folder"):
        load(kind)
    with pytest.raises(CheckpointError, match="no checkpoint here"):
        load(kind, model=str(tmp_path))
    with pytest.raises(CheckpointError, match="no device of PyTorch"):
        load(kind, device="abacus", model=str(folder))
    with pytest.raises(CheckpointError, match="bfloat17"):
        load(kind, model=str(folder), dtype="bfloat17")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(CheckpointError, match="'llama'"):
        load(kind, model=str(tmp_path))


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a CUDA device")
def test_a_cuda_device_that_is_not_there_is_said(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="no CUDA device"):
        load(Qwen3OmniThinker, device="cuda:0", model=str(folder))


def test_rotary_frequencies_keep_their_precision(folder: Path) -> None:
    config: Any = Qwen3OmniMoeConfig.from_pretrained(folder)
    talker = Qwen3OmniMoeTalkerForConditionalGeneration(config.talker_config)
    frequencies = talker.model.rotary_emb.inv_freq.clone()
    omni_checkpoint.load_part(talker, folder, "talker.", torch.device("cpu"), torch.bfloat16)
    assert torch.equal(talker.model.rotary_emb.inv_freq, frequencies)
    assert {one.dtype for one in talker.parameters()} == {torch.bfloat16}


def test_an_unknown_speaker_is_said(folder: Path) -> None:
    with pytest.raises(CheckpointError, match=r"options\.voices\.marin: no 'nobody'"):
        load(Qwen3OmniTalker, model=str(folder), voices={"marin": "nobody"})
