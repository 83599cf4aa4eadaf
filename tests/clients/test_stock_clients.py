"""Stock client SDKs on a tour of the protocol, against a real server with scripted stages.

What the scripted Transcriber hears depends on how long a tour speaks: 300, 600 or 900 ms.
A tour speaks two turns, the second reply being interrupted by a third, truncates what was not
heard, and asks in writing for something that takes a tool. It prints what its SDK made of that as
one JSON object. What no SDK may show is an error.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from environment import client_environment, client_node, client_python
from servers import scripted

from bench.server import Server, start_server
from realtime.certificate import make_self_signed

HERE = Path(__file__).parent
RUN_TIMEOUT_S = 60
OPENING, WISH, STOP = "Good morning.", "Tell me a story.", "Stop it please."
GREETING, AFTERWARDS, REPORT = "Good morning to you.", "I stop.", "The sun shines."
STORY = "Once upon a time there was a king who had a daughter. " * 8
ARGUMENTS = {"city": "Paris"}

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]


def stages() -> dict[str, Any]:
    """Everything the other side says on a tour."""
    said = {"story": STORY, "morning": GREETING, "Stop": AFTERWARDS, "sunny": REPORT}
    call = {"word": "weather", "name": "weather", "arguments": json.dumps(ARGUMENTS)}
    return scripted(
        thinker={"texts": said, "calls": [call]},
        transcriber={"texts_by_ms": {200: OPENING, 500: WISH, 800: STOP}},
        talker={"char_ms": 20},
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with start_server({"stages": stages()}) as server:
        yield server


def run(command: list[str], **variables: str) -> dict[str, Any]:
    """What a tour printed last. Fails with its stderr."""
    environment = client_environment(**variables)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, env=environment
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def check(tour: Mapping[str, Any]) -> None:
    """What every client must have experienced, and what its replies said, in the usual order."""
    check_conversation(tour, [GREETING, STORY, AFTERWARDS, REPORT])
    statuses = [reply["status"] for reply in tour["replies"]]
    assert statuses == ["completed", "cancelled", "completed", "completed", "completed"]


def check_conversation(tour: Mapping[str, Any], expected: list[str]) -> None:
    """expected: what is said, in order; of the story there may be a part."""
    assert tour["heard"] == [OPENING, WISH, STOP]
    assert tour["arguments"] == ARGUMENTS
    assert tour["audio_bytes"] > 24_000
    said = [reply["said"] for reply in tour["replies"] if reply["said"]]
    part = said[expected.index(STORY)]
    assert STORY.startswith(part)
    assert said == [part if text == STORY else text for text in expected]


def test_openai_for_node_over_tls(tmp_path: Path) -> None:
    certificate, key = make_self_signed(tmp_path, "127.0.0.1")
    tls = {"tls_cert": str(certificate), "tls_key": str(key)}
    node = client_node(HERE / "openai_node")
    with start_server({"stages": stages(), **tls}) as server:
        url = f"{server.url}/v1"
        tour = run(["node", str(node / "tour.mjs"), url], NODE_EXTRA_CA_CERTS=str(certificate))
    check(tour)
    assert (tour["tools"], tour["truncated_ms"], tour["close_code"]) == (["weather"], 100, 1000)


def python_tour(name: str, *arguments: str, script: str = "tour.py") -> dict[str, Any]:
    folder = HERE / name
    return run([str(client_python(folder)), str(folder / script), *arguments])


def test_openai_for_python_without_asyncio(server: Server) -> None:
    tour = python_tour("openai_python", f"{server.url}/v1")
    check(tour)
    assert tour["truncated_ms"] == 100


def test_openai_agents_for_python(server: Server) -> None:
    tour = python_tour("agents_python", server.realtime_url)
    check(tour)
    assert tour["interrupted"] >= 1
    assert 0 < tour["truncated_ms"][-1] < 3000
    assert tour["history"][:2] == ["user", "assistant"]


def test_openai_agents_for_node(server: Server) -> None:
    node = client_node(HERE / "agents_node")
    tour = run(["node", str(node / "tour.mjs"), server.realtime_url])
    check(tour)
    assert tour["interrupted"] >= 1
    assert 0 < tour["truncated_ms"][-1] < 3000
    assert tour["history"][:2] == ["user", "assistant"]
    assert tour["added"] == "item_note"
    assert tour["not_understood"] == []


def test_pipecat(server: Server) -> None:
    tour = python_tour("pipecat_realtime", server.realtime_url)
    check_conversation(tour, [REPORT, GREETING, STORY, AFTERWARDS])
    assert tour["errors"] == []


def test_livekit(server: Server) -> None:
    tour = python_tour("livekit_openai", f"{server.url}/v1")
    check_conversation(tour, [GREETING, STORY, AFTERWARDS, REPORT])
    assert tour["errors"] == []
    spoken = ["message"] * 6
    written = ["message", "function_call", "function_call_output", "message"]
    assert tour["history"] == [*spoken, *written]


def test_openai_for_python_in_the_dialect_of_the_beta(server: Server) -> None:
    tour = python_tour("openai_beta", f"{server.url}/v1")
    check(tour)
    assert tour["truncated_ms"] == 100
    assert tour["session"] == ["verse", ["audio", "text"], 0.7]


def test_livekit_as_a_transcriber(server: Server) -> None:
    told = python_tour("livekit_openai", f"{server.url}/v1", script="stt.py")
    assert told["heard"] == [OPENING, WISH]
    assert "interim_transcript" in told["kinds"]


def test_pipecat_as_a_transcriber(server: Server) -> None:
    told = python_tour("pipecat_realtime", server.realtime_url, script="stt.py")
    assert told == {"heard": [OPENING, WISH], "errors": []}
