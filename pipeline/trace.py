"""What a worker did when: one line of JSON for each step, and each payload it took or put.

Times are of the monotonic clock, which all processes of a machine share, so that the files of
several workers can be laid side by side. For measuring; off unless the key `trace` names a folder.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class Trace:
    """Appends to `FOLDER/NAME.jsonl`. Raises OSError if the folder cannot be written to."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{name}.jsonl").open("a", buffering=1, encoding="utf-8")

    def note(self, what: str, began_s: float, **more: Any) -> None:
        """Something that began then is over now. what: step, take or put."""
        line = {"what": what, "began_s": began_s, "ended_s": time.monotonic(), **more}
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_trace(folder: Path, name: str) -> list[dict[str, Any]]:
    """What a worker has noted, oldest first; nothing if it has no file."""
    path = folder / f"{name}.jsonl"
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
