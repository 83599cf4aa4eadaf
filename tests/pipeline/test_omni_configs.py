"""The shipped configurations of omni models: what they start with, and how they refuse to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import configs
from pipeline.config import StageConfig
from pipeline.models.tiny_qwen2_5_omni import make_tiny_qwen2_5_omni
from pipeline.models.tiny_qwen3_omni import make_tiny_qwen3_omni
from pipeline.stage import StageSettings
from pipeline.stages import create_stage
from pipeline.stages.omni_checkpoint import CheckpointError
from realtime.config import load_config

CASES = {
    f"{path.stem} {name}": getattr(load_config(path).stages, name)
    for path in sorted(Path(configs.__file__).parent.glob("*omni*.yaml"))
    for name in ("thinker", "talker", "voicebox")
}
PREFIXES = {
    "qwen3_omni_thinker": "thinker.",
    "qwen3_omni_talker": "talker.",
    "qwen3_omni_voicebox": "code2wav.",
    "qwen2_5_omni_thinker": "thinker.",
    "qwen2_5_omni_talker": "talker.",
    "qwen2_5_omni_voicebox": "token2wav.",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints, by family."""
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny_qwen3_omni(folder / "qwen3_omni")
    make_tiny_qwen2_5_omni(folder / "qwen2_5_omni")
    return folder


def family(stage: StageConfig) -> str:
    return stage.kind.rpartition("_")[0]


def load(stage: StageConfig, model: Path, device: str = "cpu") -> None:
    """The stage as it is configured, but for the checkpoint and the device."""
    options = {**stage.options, "model": str(model)}
    create_stage(stage.kind, StageSettings(stage.threads, device, options=options)).load()


def test_there_are_configurations_of_both_families() -> None:
    assert {stage.kind for stage in CASES.values()} == set(PREFIXES)


@pytest.mark.parametrize("case", CASES)
def test_a_stage_starts_with_the_options_of_its_configuration(case: str, tiny: Path) -> None:
    load(CASES[case], tiny / family(CASES[case]))


@pytest.mark.parametrize("case", CASES)
def test_what_it_cannot_start_from_is_named(
    case: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = CASES[case]
    model = tiny / family(stage)
    with pytest.raises(CheckpointError, match="nowhere: no checkpoint here"):
        load(stage, tmp_path / "nowhere")
    (other,) = (folder for folder in tiny.iterdir() if folder != model)
    with pytest.raises(CheckpointError, match=r"this is a 'qwen.*; the stage needs a 'qwen"):
        load(stage, other)
    with pytest.raises(CheckpointError, match="no device of PyTorch"):
        load(stage, model, "abacus")

    with monkeypatch.context() as patched:
        patched.setattr(torch.cuda, "is_available", lambda: True)
        patched.setattr(torch.cuda, "device_count", lambda: 8)
        patched.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 10, 1 << 40))
        told = rf"{stage.device} has 0\.0 GiB free, and the weights need"
        with pytest.raises(CheckpointError, match=told):
            load(stage, model, stage.device)
        patched.setattr(torch.cuda, "device_count", lambda: 0)
        with pytest.raises(CheckpointError, match=f"'{stage.device}': this machine has no CUDA"):
            load(stage, model, stage.device)

    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    weights = load_file(broken / "model.safetensors")
    prefix = PREFIXES[stage.kind]
    missing = sorted(name for name in weights if name.startswith(prefix))[5]
    del weights[missing]
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=rf"the weight {prefix}\S+ is missing"):
        load(stage, broken)
