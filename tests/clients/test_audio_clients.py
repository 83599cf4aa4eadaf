"""Stock clients speak and transcribe over REST, against a real server with scripted stages.

The scripted Talker needs `CHAR_MS` for each character, and the Transcriber hears `HEARD` in
everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from servers import scripted
from tours import run_script

from audio.encoding import FILE_FORMATS
from bench.server import Server, start_server

TEXT = "Good morning to you."
HEARD = "Hello there."
CHAR_MS = 50
SECONDS = len(TEXT) * CHAR_MS / 1000

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    stages = scripted(talker={"char_ms": CHAR_MS}, transcriber={"text": HEARD})
    with start_server({"stages": stages}) as server:
        yield server


def about(seconds: float) -> Any:
    """Lossy formats are a little longer."""
    return pytest.approx(seconds, abs=0.15)


def test_livekit_plugins(server: Server) -> None:
    told = run_script("livekit_openai", "audio", f"{server.url}/v1", TEXT)
    assert told == {
        "tts-1": about(SECONDS),
        "gpt-4o-mini-tts": about(SECONDS),
        "whisper-1": HEARD,
        "gpt-4o-mini-transcribe": HEARD,
        "gpt-transcribe": HEARD,
    }


def test_pipecat_services(server: Server) -> None:
    told = run_script("pipecat_realtime", "audio", f"{server.url}/v1", TEXT)
    assert told == {"seconds": about(SECONDS), "heard": [HEARD, HEARD], "errors": []}


def test_openai_for_node(server: Server) -> None:
    told = run_script("openai_node", "audio", f"{server.url}/v1", TEXT)
    assert told["types"] == {name: kind.media_type for name, kind in FILE_FORMATS.items()}
    assert told["seconds"] == dict.fromkeys(FILE_FORMATS, about(SECONDS))
    shapes = told["shapes"]
    assert (shapes["json"]["text"], shapes["text"]) == (HEARD, HEARD + "\n")
    assert shapes["srt"].startswith("1\n00:00:00,000 --> ")
    assert shapes["vtt"].startswith("WEBVTT\n\n00:00:00.000 --> ")
    assert [word["word"] for word in shapes["verbose_json"]["words"]] == HEARD.split()
    assert "".join(told["deltas"]) == told["done"] == HEARD
    assert told["refused"] == [[400, "input"], [400, "model"], [404, "model"]]
