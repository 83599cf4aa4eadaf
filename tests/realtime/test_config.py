"""The configuration's layers, and what it says about keys it does not know."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

import configs
from pipeline.config import STAGE_NAMES
from pipeline.stages import STAGES
from realtime.config import Config, ConfigError, load_config


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("SORI_"):
            monkeypatch.delenv(name)


def write(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def test_the_shipped_file_lists_every_default() -> None:
    path = Path(configs.__file__).with_name("cpu.yaml")

    assert load_config(path) == load_config()
    listed = set(yaml.safe_load(path.read_text()))
    assert set(Config.model_fields) - listed == {"home", "tls_cert", "tls_key"}


def test_environment_beats_the_file_and_the_command_line_beats_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "port: 1\nmax_sessions: 2\nvoice: ash\n")
    monkeypatch.setenv("SORI_PORT", "3")
    monkeypatch.setenv("SORI_MAX_SESSIONS", "4")

    config = load_config(path, port=5, host=None)

    assert (config.port, config.max_sessions, config.voice) == (5, 4, "ash")
    assert config.host == "127.0.0.1"


def test_one_key_of_one_stage_leaves_its_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "stages: {thinker: {threads: 3}}\n")
    monkeypatch.setenv("SORI_STAGES__TALKER__THREADS", "2")
    monkeypatch.setenv("SORI_STAGES__THINKER__OPTIONS__MODEL", "/models/x.gguf")

    stages = load_config(path).stages

    assert (stages.thinker.kind, stages.thinker.threads) == ("llama", 3)
    assert (stages.talker.kind, stages.talker.threads) == ("hibari_talker", 2)
    assert stages.thinker.options == {"model": "/models/x.gguf"}


def test_lists_come_from_variables_at_commas_and_home_from_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SORI_API_KEYS", "one, two")
    monkeypatch.setenv("SORI_HOME", str(tmp_path))

    config = load_config()

    assert config.api_keys == ("one", "two")
    assert config.home == tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("prot: 9000", ["'prot'", "'port'"]),
        ("stages: {talker: {thread: 2}}", ["'stages.talker.thread'", "'threads'"]),
        ("stages: {speaker: {threads: 2}}", ["'stages.speaker'"]),
        ("port: many", ["port", "integer"]),
        ("max_append_bytes: 99999999", ["max_append_bytes"]),
        ("tls_cert: a.pem", ["tls_key"]),
        ("synthesis_lead_ms: 1000", ["synthesis_lead_ms", "pacing_lead_ms"]),
        ("- a list", ["top level"]),
        ("port: [", ["YAML"]),
    ],
)
def test_a_bad_file_names_itself_and_the_key(tmp_path: Path, text: str, names: list[str]) -> None:
    path = write(tmp_path, text)

    with pytest.raises(ConfigError) as caught:
        load_config(path)

    for name in names:
        assert name in str(caught.value)


def test_the_home_of_the_models_may_begin_with_a_tilde(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, "home: ~/models")).home == Path.home() / "models"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: No such file"):
        load_config(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("variable", "value", "names"),
    [
        ("SORI_PROT", "1", ["SORI_PROT", "SORI_PORT"]),
        ("SORI_PORT", "x", ["SORI_PORT", "integer"]),
        ("SORI_STAGES__TALKER__THREAD", "1", ["SORI_STAGES__TALKER__THREAD", "'threads'"]),
        ("SORI_STAGES", "{bad", ["stages"]),
    ],
)
def test_a_bad_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, names: list[str]
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(ConfigError) as caught:
        load_config()

    for name in names:
        assert name in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_needs_no_key(host: str) -> None:
    Config(host=host).require_safe_bind()


def test_other_addresses_need_keys_or_an_explicit_yes() -> None:
    with pytest.raises(ConfigError, match=r"api_keys.*--allow-anonymous"):
        Config(host="0.0.0.0").require_safe_bind()
    Config(host="0.0.0.0", api_keys=("k",)).require_safe_bind()
    Config(host="0.0.0.0", allow_anonymous=True).require_safe_bind()


def test_a_model_is_known_by_its_name_or_an_alias() -> None:
    config = Config()

    assert config.knows_model("sori")
    assert config.knows_model("gpt-realtime-mini")
    assert not config.knows_model("llama-9")


@pytest.mark.parametrize("name", ["qwen3-omni", "qwen3-omni-1gpu", "qwen2.5-omni"])
def test_configurations_of_other_models_are_whole(name: str) -> None:
    config = load_config(Path(__file__).parents[2] / "configs" / f"{name}.yaml")
    kinds = [getattr(config.stages, stage).kind for stage in STAGE_NAMES]
    family = "qwen3_omni" if name.startswith("qwen3") else "qwen2_5_omni"
    assert kinds[3:] == [f"{family}_{part}" for part in ("thinker", "talker", "voicebox")]
    assert set(kinds) <= set(STAGES)
    assert config.stages.voicebox.device.startswith("cuda:")
