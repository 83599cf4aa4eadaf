"""Stock client SDKs, each in an environment of its own, against a real server.

A client is a folder with a requirements.txt and a conversation.py, which gets the server's base URL
and files of speech, and prints what it experienced as one JSON object.
"""

from __future__ import annotations

import json
import re
import subprocess
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from environment import client_python

from audio.containers import load_audio
from bench.clips import CLIP_RATE_HZ, load_clips
from bench.server import Server

HERE = Path(__file__).parent
CLIENTS = sorted(path.parent for path in HERE.glob("*/conversation.py"))
README = HERE.parent.parent / "README.md"
CLIENT_RATE_HZ = 24_000
RUN_TIMEOUT_S = 150

pytestmark = [pytest.mark.clients, pytest.mark.models, pytest.mark.timeout(600)]


def speech(name: str) -> bytes:
    """A recording as the clients send it."""
    clip = next(clip for clip in load_clips() if clip.name == name)
    samples = soxr.resample(clip.samples, CLIP_RATE_HZ, CLIENT_RATE_HZ)
    return bytes(np.asarray(samples, "<i2").tobytes())


def run(command: list[str], folder: Path) -> str:
    """Its stdout; its stderr is the message if it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("client", CLIENTS, ids=lambda path: path.name)
def test_a_stock_client_holds_a_spoken_conversation_of_two_turns(
    client: Path, model_server: Server, tmp_path: Path
) -> None:
    files = []
    for name in ("go_forward.wav", "librivox_0880.wav"):
        files.append(tmp_path / f"{name}.pcm")
        files[-1].write_bytes(speech(name))
    script = [str(client_python(client)), str(client / "conversation.py")]
    printed = run([*script, f"{model_server.url}/v1", *map(str, files)], tmp_path)
    told: dict[str, Any] = json.loads(printed.splitlines()[-1])
    assert told["first_event"] == "session.created"
    first, second = told["turns"]
    for turn in (first, second):
        assert turn["status"] == "completed"
        assert turn["said"] == turn["transcript"] != ""
        assert turn["audio"] > CLIENT_RATE_HZ * 2 * 0.3
        assert [item["role"] for item in turn["items"]] == ["user", "assistant"]
    assert re.search(r"forward", first["heard"], re.IGNORECASE)
    assert re.search(r"young man", second["heard"], re.IGNORECASE)
    ids = [item["id"] for turn in (first, second) for item in turn["items"]]
    assert len(set(ids)) == 4


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_of_the_readme_work_as_they_stand(
    model_server: Server, tmp_path: Path, number: int
) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    default = "http://127.0.0.1:8000"
    assert len(examples) == 2
    script = tmp_path / "example.py"
    script.write_text(examples[number].replace(default, model_server.url))
    _write_wav(tmp_path / "question.wav", speech("librivox_0880.wav"))
    python = client_python(HERE / "openai_python")
    printed = run([str(python), str(script)], tmp_path)
    assert len(printed.split()) >= 1
    (answer,) = tmp_path.glob("answer.*")
    assert len(load_audio(answer, CLIENT_RATE_HZ)) > CLIENT_RATE_HZ * 0.3


def _write_wav(path: Path, pcm: bytes) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(CLIENT_RATE_HZ)
        file.writeframes(pcm)
