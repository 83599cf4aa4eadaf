"""Takes a stock client on the tour that its folder holds, in the client's own environment.

A tour speaks two turns, the second reply being interrupted by a third, truncates what was not
heard, and asks in writing for something that takes a tool. Given a recording it speaks that
instead, and nothing else. It prints what its SDK made of that as one JSON object, and writes the
sound that it got into a file. What no SDK may show is an error.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import soundfile
from environment import client_environment, client_node, client_python

HERE = Path(__file__).parent
RUN_TIMEOUT_S = 60
ENCODINGS = {
    "audio/pcm": ("PCM_16", 24_000),
    "audio/pcmu": ("ULAW", 8_000),
    "audio/pcma": ("ALAW", 8_000),
}
"""Of each encoding libsndfile's name, and the rate: it decodes by tables that are not Sori's."""


def take_tour(
    client: str,
    url: str,
    *,
    encoding: str = "audio/pcm",
    variables: Mapping[str, str] | None = None,
    **options: str,
) -> dict[str, Any]:
    """What the client's tour has told; in `audio` all that it heard, int16 at `rate_hz`.

    encoding: for both directions, where a client offers the choice. variables: of its environment.
    options: `speech` is a file to speak instead, in the encoding; `max_tokens` limits each reply.
    """
    subtype, rate_hz = ENCODINGS[encoding]
    if encoding != "audio/pcm":
        options["encoding"] = encoding
    with tempfile.TemporaryDirectory(prefix="sori-tour-") as folder:
        answer = Path(folder) / "answer.raw"
        pairs = [f"{name}={value}" for name, value in options.items()]
        told = run_script(client, "tour", url, f"answer={answer}", *pairs, variables=variables)
        shape = {"samplerate": rate_hz, "channels": 1, "format": "RAW", "subtype": subtype}
        told["audio"], told["rate_hz"] = soundfile.read(answer, dtype="int16", **shape)
    return told


def run_script(
    client: str, name: str, *arguments: str, variables: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What a script of the client's folder has printed last, as JSON. Fails with its stderr."""
    folder = HERE / client
    if (folder / "package.json").exists():
        command = ["node", str(client_node(folder) / f"{name}.mjs")]
    else:
        command = [str(client_python(folder)), str(folder / f"{name}.py")]
    done = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        env=client_environment(**(variables or {})),
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
