"""Qwen2.5-Omni through its stages, held against the model's own `generate()`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from omni25_oracle import IM_END, Official25, qwen25_stages
from omni_crowd import check_crowd
from omni_oracle import SEEN, Stages, fed, given, heard, loaded, pictured, request, shown
from safetensors.torch import load_file, save_file
from stage_driver import StageDriver

from pipeline.messages import (
    PICTURE,
    RECORDING,
    Audio,
    Condition,
    End,
    Failed,
    Frames,
    Plan,
    Start,
    TextDelta,
)
from pipeline.models import tiny_qwen2_5_omni
from pipeline.models.tiny_qwen2_5_omni import make_tiny_qwen2_5_omni
from pipeline.stage import Input, Output, Stage, StageError, StageSettings, Work
from pipeline.stages import qwen2_5_omni_voicebox
from pipeline.stages.omni_checkpoint import CheckpointError
from pipeline.stages.qwen2_5_omni_talker import Qwen25OmniTalker
from pipeline.stages.qwen2_5_omni_thinker import Qwen25OmniThinker
from pipeline.stages.qwen2_5_omni_voicebox import Qwen25OmniVoiceBox

REQUESTS = [
    request("short", "hi there"),
    request("system", "What is the capital?", system="You are kind."),
    request("turns", "hello", "hey you", "and now?", system="be nice", voice="chelsie"),
    request("other script", "안녕하세요, how are you?"),
    request("long", "tell me " * 60),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "qwen2.5-omni"
    make_tiny_qwen2_5_omni(path)
    return path


@pytest.fixture(scope="module")
def official(folder: Path) -> Official25:
    return Official25(folder)


@pytest.fixture(scope="module")
def stages(folder: Path) -> Stages:
    return qwen25_stages(folder)


@pytest.fixture(scope="module")
def thinker(stages: Stages) -> Stage:
    return stages.thinker


@pytest.fixture(scope="module")
def talker(stages: Stages) -> Stage:
    return stages.talker


def tokens_of(outputs: Sequence[Output]) -> list[int]:
    deltas = [o.message for o in outputs if isinstance(o.message, TextDelta)]
    return [token for delta in deltas for token in delta.token_ids]


def codes_of(outputs: Sequence[Output]) -> NDArray[np.int32]:
    frames = [o.array for o in outputs if isinstance(o.message, Frames) and o.array is not None]
    return np.concatenate(frames)[:, 0]


def spoken(
    thinker: Stage, talker: Stage, start: Start, inputs: Sequence[Input] = ()
) -> tuple[list[int], NDArray[np.int32]]:
    """(text tokens, codes) of a whole reply."""
    thought = StageDriver(thinker).run(start, inputs)
    return tokens_of(thought), codes_of(StageDriver(talker).run(start, fed(thought, Condition)))


@pytest.mark.parametrize("start", REQUESTS, ids=lambda start: start.request_id)
def test_tokens_and_codes_are_the_official_ones(
    official: Official25, thinker: Stage, talker: Stage, start: Start
) -> None:
    wanted = official.generate(start.items, 10, start.voice.title())
    tokens, codes = spoken(thinker, talker, start)
    assert tokens == [token for token in wanted.tokens if token != IM_END]
    assert len(wanted.codes) > 1
    assert np.array_equal(codes, wanted.codes)


HEARD = [
    ("question", [f"Listen: {RECORDING} What was that?"], [16_000]),
    ("odd lengths", [RECORDING], [12_345]),
    ("long", [RECORDING], [100_100]),
    ("two in one turn", [f"{RECORDING}\nand\n{RECORDING}"], [8_000, 30_000]),
    ("in an earlier turn", [RECORDING, "I see.", f"And {RECORDING}?"], [20_000, 5_000]),
    ("only earlier", [f"Hear: {RECORDING}", "I see.", "What was it?"], [9_999]),
]


@pytest.mark.parametrize(("name", "turns", "lengths"), HEARD, ids=[one[0] for one in HEARD])
def test_recordings_are_heard_as_the_official_code_hears_them(
    official: Official25,
    thinker: Stage,
    talker: Stage,
    name: str,
    turns: list[str],
    lengths: list[int],
) -> None:
    start, recordings = heard(request(name, *turns, system="be nice"), lengths)
    wanted = official.generate(start.items, 10, "Ethan", recordings=recordings)
    tokens, codes = spoken(thinker, talker, start, given(recordings))
    assert tokens == [token for token in wanted.tokens if token != IM_END]
    assert len(wanted.codes) > 1
    assert np.array_equal(codes, wanted.codes)
    _, other = spoken(thinker, talker, start, given([np.zeros_like(one) for one in recordings]))
    assert not np.array_equal(other, wanted.codes)


@pytest.mark.parametrize(("name", "turns", "sizes"), SEEN, ids=[one[0] for one in SEEN])
def test_pictures_are_seen_as_the_official_code_sees_them(
    official: Official25,
    thinker: Stage,
    talker: Stage,
    name: str,
    turns: list[str],
    sizes: list[tuple[int, int]],
) -> None:
    start, pictures = pictured(request(name, *turns, system="be nice"), sizes)
    wanted = official.generate(start.items, 10, "Ethan", pictures=pictures)
    tokens, codes = spoken(thinker, talker, start, given(pictures=pictures))
    assert tokens == [token for token in wanted.tokens if token != IM_END]
    assert len(wanted.codes) > 1
    assert np.array_equal(codes, wanted.codes)
    _, other = spoken(thinker, talker, start, given(pictures=[255 - one for one in pictures]))
    assert not np.array_equal(other, wanted.codes)


BOTH = [
    ("one turn", [f"{RECORDING} and {PICTURE} are there, {RECORDING}"]),
    ("several turns", [f"{PICTURE}{RECORDING}", "I see.", f"And {RECORDING}?"]),
]


@pytest.mark.parametrize(("name", "turns"), BOTH, ids=[one[0] for one in BOTH])
def test_pictures_and_recordings_are_told_apart(
    official: Official25, thinker: Stage, talker: Stage, name: str, turns: list[str]
) -> None:
    start, pictures = pictured(request(name, *turns), [(70, 100)])
    start, recordings = heard(start, [12_000, 8_000])
    wanted = official.generate(start.items, 10, "Ethan", recordings=recordings, pictures=pictures)
    tokens, codes = spoken(thinker, talker, start, given(recordings, pictures))
    assert tokens == [token for token in wanted.tokens if token != IM_END]
    assert np.array_equal(codes, wanted.codes)


def test_pictures_that_are_not_there_fail_their_request(thinker: Stage) -> None:
    start, pictures = pictured(request("blind", PICTURE), [(70, 100)])
    inputs = [*shown(pictures[0])[:2], Input(End())]
    outputs = StageDriver(thinker).run(start, inputs)
    assert [output.message for output in outputs] == [Failed("bad_image", "pictures are missing")]


@pytest.mark.parametrize("text", ["", RECORDING * 2, PICTURE, f"{RECORDING}{PICTURE}"])
def test_places_that_do_not_fit_what_is_given_fail_their_request_alone(
    thinker: Stage, text: str
) -> None:
    what = "pictures" if PICTURE in text else "recordings"
    lengths = () if text == PICTURE else (8_000,)
    odd = request("odd", text)
    odd = replace(odd, items=(replace(odd.items[0], recordings=lengths),))
    works = [Work("odd", given([np.zeros(8_000, np.int16)]) if lengths else []), Work("short")]
    thinker.open(odd)
    thinker.open(REQUESTS[0])
    try:
        outputs = thinker.step(works)
    finally:
        thinker.close("odd")
        thinker.close("short")
    (failed,) = [one.message for one in outputs if one.request_id == "odd"]
    assert isinstance(failed, Failed)
    counts = (0, 1) if what == "pictures" else (1, text.count(RECORDING))
    told = f"{counts[0]} {what} for {counts[1]} places in the prompt"
    assert (failed.code, failed.message) == ("invalid_prompt", told)
    assert tokens_of([one for one in outputs if one.request_id == "short"])


@pytest.mark.parametrize("length", [0, 1, 10, 320, 500])
def test_a_click_is_heard_too(thinker: Stage, length: int) -> None:
    start, recordings = heard(request("click", f"{RECORDING}!"), [length])
    (*_, last) = StageDriver(thinker).run(start, given(recordings))
    assert isinstance(last.message, End)
    assert last.message.usage is not None
    assert last.message.usage.audio_tokens == 1


def test_recordings_that_are_not_there_fail_their_request(thinker: Stage) -> None:
    start, recordings = heard(request("deaf", RECORDING), [16_000])
    outputs = StageDriver(thinker).run(start, given([recordings[0][:10]]))
    assert [output.message for output in outputs] == [Failed("bad_audio", "recordings are missing")]


def test_the_voice_chooses_the_speaker(thinker: Stage, talker: Stage) -> None:
    start = REQUESTS[1]  # the random Talker says some replies alike by either
    rows = fed(StageDriver(thinker).run(start), Condition)
    ethan = codes_of(StageDriver(talker).run(start, rows))
    chelsie = codes_of(StageDriver(talker).run(replace(start, voice="chelsie"), rows))
    assert not np.array_equal(ethan, chelsie)


def test_a_text_alone_has_no_rows_for_a_talker(thinker: Stage) -> None:
    thought = StageDriver(thinker).run(replace(REQUESTS[0], plan=Plan.TEXT))
    assert not any(isinstance(output.message, Condition) for output in thought)
    assert tokens_of(thought) == tokens_of(StageDriver(thinker).run(REQUESTS[0]))


def test_requests_in_between_each_other_are_as_if_alone(folder: Path) -> None:
    check_crowd(qwen25_stages(folder, greedy=False, max_codes=30), seed=5)


KINDS = [
    (Qwen25OmniThinker, "thinker."),
    (Qwen25OmniThinker, "thinker.audio_tower."),
    (Qwen25OmniThinker, "thinker.visual."),
    (Qwen25OmniTalker, "talker."),
    (Qwen25OmniVoiceBox, "token2wav."),
]


@pytest.mark.parametrize(("kind", "prefix"), KINDS, ids=[prefix for _, prefix in KINDS])
def test_what_is_missing_is_named(
    kind: Callable[[StageSettings], Stage], prefix: str, folder: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    weights = load_file(broken / "model.safetensors")
    del weights[sorted(one for one in weights if one.startswith(prefix))[3]]
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="missing"):
        loaded(kind, model=str(broken))
    shutil.copytree(folder, broken, dirs_exist_ok=True)
    (broken / "spk_dict.pt").unlink()
    with pytest.raises(CheckpointError, match="speakers"):
        loaded(kind, model=str(broken))
    shutil.copytree(folder, broken, dirs_exist_ok=True)
    if kind is Qwen25OmniThinker:
        (broken / "preprocessor_config.json").unlink()
        with pytest.raises(CheckpointError, match="preprocessor_config.json"):
            loaded(kind, model=str(broken))
    with pytest.raises(CheckpointError, match="'llama'"):
        (broken / "config.json").write_text('{"model_type": "llama"}')
        loaded(kind, model=str(broken))


def test_an_unknown_speaker_is_said(folder: Path) -> None:
    with pytest.raises(CheckpointError, match=r"options\.voices\.marin: no 'nobody'"):
        loaded(Qwen25OmniTalker, model=str(folder), voices={"marin": "nobody"})


# -- Token2Wav -------------------------------------------------------------------------------------

WHOLE = 1000


def wave_of(stage: Stage, start: Start, codes: NDArray[np.int32], pieces: int) -> list[Any]:
    """The chunks of samples made of codes that come in so many pieces."""
    given = [Input(Frames(), piece[:, None]) for piece in np.array_split(codes, pieces)]
    outputs = StageDriver(stage).run(start, [*given, Input(End())])
    return [o.array for o in outputs if isinstance(o.message, Audio)]


@pytest.mark.parametrize("start", REQUESTS[:2], ids=lambda start: start.request_id)
def test_in_one_block_the_sound_is_the_official_one(
    folder: Path, official: Official25, start: Start
) -> None:
    wanted = official.generate(start.items, 10, start.voice.title(), seed=7)
    voicebox = loaded(Qwen25OmniVoiceBox, model=str(folder), blocks=WHOLE)
    (whole,) = wave_of(voicebox, replace(start, seed=7), wanted.codes.astype(np.int32), 1)
    assert np.abs(wanted.wave).max() > 0.01
    assert len(whole) == len(wanted.wave)
    assert np.abs(whole / 32767 - wanted.wave).max() < 1e-4


@pytest.mark.parametrize("latency_first", [True, False])
def test_blocks_give_every_sample_once_and_the_same_sound(
    folder: Path, latency_first: bool
) -> None:
    codes = np.random.default_rng(3).integers(0, 64, 130).astype(np.int32)
    start = replace(REQUESTS[0], seed=5, latency_first=latency_first)
    voicebox = loaded(Qwen25OmniVoiceBox, model=str(folder))
    chunks = wave_of(voicebox, start, codes, 130)
    assert len(chunks) > 2
    cut = np.concatenate(chunks)
    assert len(cut) == 130 * 480
    # The same pieces however the codes come; close to what one block gives.
    assert np.array_equal(cut, np.concatenate(wave_of(voicebox, start, codes, 3)))
    one = loaded(Qwen25OmniVoiceBox, model=str(folder), blocks=WHOLE)
    (whole,) = wave_of(one, start, codes, 1)
    difference = cut.astype(float) - whole
    assert np.sqrt(np.mean(difference**2) / np.mean(whole.astype(float) ** 2)) < 0.05
    other = np.concatenate(wave_of(voicebox, replace(start, seed=6), codes, 3))
    assert not np.array_equal(cut, other)


def test_the_wave_made_in_pieces_is_that_of_the_whole_spectrogram(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The released model's kernels, which look further than the tiny one's.
    real = tiny_qwen2_5_omni._bigvgan()
    for key in ("resblock_kernel_sizes", "resblock_dilation_sizes"):
        del real[key]
    monkeypatch.setattr(tiny_qwen2_5_omni, "_bigvgan", lambda: real)
    make_tiny_qwen2_5_omni(tmp_path)
    voicebox = loaded(Qwen25OmniVoiceBox, model=str(tmp_path))
    codes = np.random.default_rng(3).integers(0, 64, 60).astype(np.int32)
    cut = wave_of(voicebox, REQUESTS[0], codes, 60)
    monkeypatch.setattr(qwen2_5_omni_voicebox, "VOCODER_FRAMES", 1_000)
    (whole,) = wave_of(voicebox, REQUESTS[0], codes, 60)
    assert len(cut) > 2
    assert np.abs(whole).max() > 300
    assert np.abs(np.concatenate(cut).astype(int) - whole).max() <= 1


def test_codes_that_are_none_fail_their_request(folder: Path) -> None:
    voicebox = loaded(Qwen25OmniVoiceBox, model=str(folder))
    for wrong in (np.full(1, 999), np.full(1, -1)):
        with pytest.raises(StageError, match="codes"):
            wave_of(voicebox, REQUESTS[0], wrong.astype(np.int32), 1)
        voicebox.close(REQUESTS[0].request_id)
