"""A virtual environment for each client SDK: they pin other versions than Sori and each other."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

INSTALL_TIMEOUT_S = 300


def client_python(folder: Path) -> Path:
    """The interpreter of a client's environment, made when its requirements have changed.

    The environment lies in the client's folder and is kept from run to run.
    """
    requirements = folder / "requirements.txt"
    environment = folder / ".venv"
    python = environment / "bin" / "python"
    stamp = environment / "requirements.sha256"
    wanted = _fingerprint(requirements)
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(environment, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(environment)])
    _run([str(python), "-m", "pip", "install", "-q", "-r", str(requirements)])
    stamp.write_text(wanted)
    return python


def _fingerprint(requirements: Path) -> str:
    return hashlib.sha256(sys.version.encode() + requirements.read_bytes()).hexdigest()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
