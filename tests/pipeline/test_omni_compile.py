"""Parts of fixed shape, compiled at load, and never in a reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stage_driver import StageDriver
from torch._dynamo.utils import counters

from pipeline.config import EngineConfig, StageConfig, StagesConfig
from pipeline.engine import Engine
from pipeline.errors import StartFailed
from pipeline.messages import Audio, End, Frames, Plan, Start
from pipeline.models.tiny_qwen3_omni import CODEBOOK, GROUPS, make_tiny_qwen3_omni
from pipeline.stage import Input, StageSettings
from pipeline.stages import create_stage, omni_graphs
from pipeline.stages.omni_checkpoint import CheckpointError
from pipeline.stages.omni_graphs import FixedShapes, Readiness, readiness_of
from pipeline.stages.qwen3_omni_voicebox import Qwen3OmniVoiceBox

CPU = torch.device("cpu")
# PyTorch's own compiler still uses what PyTorch warns of.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script_method.:DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("tiny") / "qwen3-omni"
    make_tiny_qwen3_omni(path)
    yield path


def compiles() -> int:
    """How many pieces of code have been compiled in this process."""
    return int(counters["stats"]["unique_graphs"])


def curve(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Whatever: something to compile."""
    return torch.tanh(first) * 2 + second


def inputs(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(count), torch.rand(count)


def test_shapes_are_compiled_in_warm_up_and_no_other_ever_is() -> None:
    run = FixedShapes(curve, Readiness(compile=True), CPU)
    before = compiles()
    for count in (3, 5, 3):
        run.warm(*inputs(count))
    assert run.warmed == 2
    assert compiles() == before + 2
    for count in (3, 5, 7, 3, 1):
        given = inputs(count)
        assert torch.allclose(run(*given), curve(*given), atol=1e-6)
    assert compiles() == before + 2


def test_what_compiled_code_is_bound_to_may_change_without_a_compile() -> None:
    run = FixedShapes(curve, Readiness(compile=True), CPU)
    run.warm(*inputs(4))
    before = compiles()
    given = tuple(one[::2] for one in inputs(8))  # the shape is known, its strides are not
    assert torch.allclose(run(*given), curve(*given), atol=1e-6)
    assert compiles() == before


def test_compiled_code_is_what_runs_in_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    set_stance: Any = torch.compiler.set_stance
    stances: dict[str, Any] = {"eager_on_recompile": "fail_on_recompile"}
    monkeypatch.setattr(
        torch.compiler, "set_stance", lambda stance: set_stance(stances.get(str(stance), stance))
    )
    run = FixedShapes(curve, Readiness(compile=True), CPU)
    run.warm(*inputs(6))
    run(*inputs(6))
    with torch.inference_mode():
        run(*inputs(6))


def test_the_number_of_shapes_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(omni_graphs, "MAX_SHAPES", 2)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    run = FixedShapes(curve, Readiness(compile=True), CPU)
    for count in (1, 2, 1):
        run.warm(*inputs(count))
    with pytest.raises(CheckpointError, match="more than 2 shapes"):
        run.warm(*inputs(3))


def test_without_the_options_nothing_is_made_ready() -> None:
    run = FixedShapes(curve, Readiness(), CPU)
    before = compiles()
    run.warm(*inputs(3))
    assert (run.warmed, compiles()) == (0, before)


def test_padded_chunks_make_the_sound_of_those_that_are_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real compiler takes half a minute for each length: which code runs is tested above.
    lengths: list[int] = []
    plain = make_voicebox(folder)

    def compiled(function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        def call(frames: torch.Tensor) -> Any:
            lengths.append(frames.shape[2])
            return function(frames)

        return call

    monkeypatch.setattr(torch, "compile", compiled)
    ready = make_voicebox(folder, compile=True)
    warmed = set(lengths)
    assert warmed == {4, 12, 24, 37, 84}
    for latency_first, count in ((True, 61), (False, 133), (True, 1)):
        lengths.clear()
        wanted, got = (spoken(stage, latency_first, count) for stage in (plain, ready))
        assert len(got) == len(wanted) == count * 1920 - 555
        assert np.abs(wanted).max() > 300
        assert np.abs(got - wanted).max() <= 1
        assert lengths
        assert set(lengths) <= warmed


def test_chunks_longer_than_any_made_ready_are_decoded_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    ready = make_voicebox(folder, compile=True, context=10_000)
    plain = make_voicebox(folder, context=10_000)
    assert ready._lengths == [4, 12, 24]
    wanted, got = (spoken(stage, True, 61) for stage in (plain, ready))
    assert np.abs(got - wanted).max() <= 1


def make_voicebox(folder: Path, **options: Any) -> Qwen3OmniVoiceBox:
    stage = Qwen3OmniVoiceBox(StageSettings(options={"model": str(folder), **options}))
    stage.load()
    return stage


def spoken(stage: Qwen3OmniVoiceBox, latency_first: bool, count: int) -> Any:
    """Samples of a reply of random codes. int32"""
    codes = np.random.default_rng(count).integers(0, CODEBOOK, (count, GROUPS)).astype(np.int32)
    start = Start("r", Plan.SPEECH, latency_first=latency_first)
    outputs = StageDriver(stage).run(start, [Input(Frames(), codes), Input(End())])
    made = [one.array for one in outputs if isinstance(one.message, Audio)]
    return np.concatenate([one for one in made if one is not None]).astype(np.int32)


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["compile", "cuda_graphs"])
@pytest.mark.parametrize("value", ["yes", "true", 1, None, "max-autotune"])
def test_values_that_are_no_switch_are_refused(name: str, value: object) -> None:
    with pytest.raises(CheckpointError, match=f"options.{name}: {value!r} is neither"):
        readiness_of({name: value}, CPU)


REFUSING = [
    "qwen3_omni_thinker",
    "qwen3_omni_talker",
    "qwen2_5_omni_thinker",
    "qwen2_5_omni_talker",
    "qwen2_5_omni_voicebox",
]


@pytest.mark.parametrize("kind", REFUSING)
@pytest.mark.parametrize("name", ["compile", "cuda_graphs"])
def test_stages_that_make_nothing_ready_refuse_it(folder: Path, kind: str, name: str) -> None:
    stage = create_stage(kind, StageSettings(options={"model": str(folder), name: True}))
    with pytest.raises(CheckpointError, match=f"options.{name}: no part of this stage"):
        stage.load()


async def test_cuda_graphs_on_a_cpu_end_the_start_and_the_stage_is_named(folder: Path) -> None:
    options = {"model": str(folder), "cuda_graphs": True}
    voicebox = StageConfig(kind="qwen3_omni_voicebox", options=options)
    engine = Engine(EngineConfig(home=folder, stages=StagesConfig(voicebox=voicebox)))
    told = "voicebox: .*options.cuda_graphs: the stage is on 'cpu', and only a CUDA device has them"
    with pytest.raises(StartFailed, match=told):
        await engine.start(("voicebox",))


# -- with a GPU ------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
def test_a_captured_shape_gives_what_the_function_gives_and_each_call_its_own(
    compiled: bool,
) -> None:
    device = need_cuda()
    run = FixedShapes(curve, Readiness(compile=compiled, cuda_graphs=True), device)
    for count in (3, 5):
        run.warm(*(one.to(device) for one in inputs(count)))
    given = [tuple(one.to(device) for one in inputs(count)) for count in (3, 5, 3, 7, 3)]
    got = [run(*one) for one in given]
    for one, made in zip(given, got, strict=True):
        assert torch.allclose(made, curve(*one), atol=1e-5)


@pytest.mark.gpu
def test_a_captured_voicebox_makes_the_sound_of_one_that_is_not(folder: Path) -> None:
    need_cuda()
    samples = []
    for captured in (False, True):
        options = {"model": str(folder), "dtype": "float32", "cuda_graphs": captured}
        stage = Qwen3OmniVoiceBox(StageSettings(device="cuda:0", options=options))
        stage.load()
        samples.append(spoken(stage, True, 61))
    assert np.abs(samples[0] - samples[1]).max() <= 33


def need_cuda() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: a CUDA graph cannot be captured")
    return torch.device("cuda:0")
