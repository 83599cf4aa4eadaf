"""An environment for each client SDK: they pin other versions than Sori and each other.

Made on first use, and kept from run to run in `.envs` under a name with the hash of what it holds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

INSTALL_TIMEOUT_S = 300
KEPT = Path(__file__).parent / ".envs"


def client_python(folder: Path) -> Path:
    """The interpreter of a client's environment; `requirements.txt` says what is in it."""
    environment = _place(folder, "requirements.txt")
    python = environment / "bin" / "python"
    if not environment.exists():
        scratch = _scratch(environment)
        uv = [sys.executable, "-m", "uv"]
        _run([*uv, "venv", "-q", "--relocatable", "--python", sys.executable, str(scratch)])
        interpreter = ["--python", str(scratch / "bin" / "python")]
        requirements = ["-r", str(folder / "requirements.txt")]
        _run([*uv, "pip", "install", "-q", *interpreter, *requirements])
        scratch.rename(environment)
    return python


def client_node(folder: Path) -> Path:
    """The folder from which node runs a client; `package.json` says what is in it."""
    environment = _place(folder, "package.json")
    if not environment.exists():
        npm = shutil.which("npm")
        if npm is None or shutil.which("node") is None:
            raise RuntimeError("node and npm are needed: install nodejs (18 or newer) with npm")
        scratch = _scratch(environment)
        scratch.mkdir()
        shutil.copy(folder / "package.json", scratch)
        _run([npm, "install", "--silent", "--no-audit", "--no-fund"], cwd=scratch)
        scratch.rename(environment)
    for script in folder.glob("*.mjs"):
        shutil.copy(script, environment)  # node looks for packages from where a script lies
    return environment


def client_environment(**more: str) -> Mapping[str, str]:
    """Variables for a client's process: nothing of Sori's own packages can be found by it."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, "PYTHONPATH": str(Path(__file__).parent), **more}


def _place(folder: Path, described_by: str) -> Path:
    contents = sys.version.encode() + (folder / described_by).read_bytes()
    return KEPT / f"{folder.name}-{hashlib.sha256(contents).hexdigest()[:12]}"


def _scratch(environment: Path) -> Path:
    """Where it is built: a build that was interrupted is never taken for a whole one."""
    scratch = environment.with_name(f"{environment.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.parent.mkdir(exist_ok=True)
    return scratch


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, cwd=cwd
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
