"""Stock client SDKs on their tours of the protocol, against a real server with scripted stages.

What the scripted Transcriber hears depends on how long a tour speaks: 300, 600 or 900 ms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from servers import scripted
from tours import ENCODINGS, run_script, take_tour

from bench.server import Server, start_server
from realtime.certificate import make_self_signed

OPENING, WISH, STOP = "Good morning.", "Tell me a story.", "Stop it please."
GREETING, AFTERWARDS, REPORT = "Good morning to you.", "I stop.", "The sun shines."
STORY = "Once upon a time there was a king who had a daughter. " * 8
NOTE = "It is written."
CHAR_MS = 20
ARGUMENTS = {"city": "Paris"}

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]


def settings() -> dict[str, Any]:
    """Everything the other side says on a tour, without a mark, which would change its sound."""
    said = {"story": STORY, "morning": GREETING, "Stop": AFTERWARDS, "sunny": REPORT, "Write": NOTE}
    call = {"word": "weather", "name": "weather", "arguments": json.dumps(ARGUMENTS)}
    stages = scripted(
        thinker={"texts": said, "calls": [call]},
        transcriber={"texts_by_ms": {200: OPENING, 500: WISH, 800: STOP}},
        talker={"char_ms": CHAR_MS},
    )
    return {"stages": stages, "watermark": {"enabled": False}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with start_server(settings()) as server:
        yield server


def check(tour: Mapping[str, Any], *more: str) -> None:
    """What every client must have experienced, and what its replies said, in the usual order.

    more: what was said after that.
    """
    check_conversation(tour, [GREETING, STORY, AFTERWARDS, REPORT, *more])
    statuses = [reply["status"] for reply in tour["replies"]]
    assert statuses == ["completed", "cancelled", *["completed"] * (3 + len(more))]


def check_conversation(tour: Mapping[str, Any], expected: list[str]) -> None:
    """expected: what is said, in order; of the story there may be a part."""
    assert tour["heard"] == [OPENING, WISH, STOP]
    assert tour["arguments"] == ARGUMENTS
    said = [reply["said"] for reply in tour["replies"] if reply["said"]]
    part = said[expected.index(STORY)]
    assert STORY.startswith(part)
    assert said == [part if text == STORY else text for text in expected]
    check_sound(tour["audio"], tour["rate_hz"])


def check_sound(samples: NDArray[np.int16], rate_hz: int) -> None:
    """That a tour got the tone of the scripted VoiceBox, for all that was said to the end."""
    seconds = len(samples) / rate_hz
    assert seconds > CHAR_MS * len(GREETING + AFTERWARDS + REPORT) * 0.95 / 1000
    piece = samples[rate_hz // 50 : rate_hz // 5] / 32768  # of the first reply, from 20 to 200 ms
    phase = 2 * np.pi * 440 * np.arange(len(piece)) / rate_hz
    tone = np.stack([np.sin(phase), np.cos(phase)], axis=1)
    found, *_ = np.linalg.lstsq(tone, piece)
    assert np.hypot(*found) == pytest.approx(0.25, rel=0.02)
    assert np.std(piece - tone @ found) < 0.25 * 0.03


def check_openai(tour: Mapping[str, Any]) -> None:
    """What the tours of OpenAI's own packages do beside the usual."""
    check(tour, NOTE)
    assert tour["truncated_ms"] == 100
    assert (tour["written"], tour["sound_of_the_written"]) == ([NOTE], 0)


def tours_in_every_encoding(client: str, url: str, **given: Any) -> Iterator[dict[str, Any]]:
    """Of one client, all at once."""
    with ThreadPoolExecutor() as pool:
        yield from pool.map(lambda name: take_tour(client, url, encoding=name, **given), ENCODINGS)


def test_openai_for_node_over_tls_in_every_encoding(tmp_path: Path) -> None:
    certificate, key = make_self_signed(tmp_path, "127.0.0.1")
    tls = {"tls_cert": str(certificate), "tls_key": str(key)}
    trust = {"NODE_EXTRA_CA_CERTS": str(certificate)}
    with start_server({**settings(), **tls}) as server:
        url = f"{server.url}/v1"
        for tour in tours_in_every_encoding("openai_node", url, variables=trust):
            check_openai(tour)
            assert (tour["tools"], tour["close_code"]) == (["weather"], 1000)


def test_openai_for_python_without_asyncio_in_every_encoding(server: Server) -> None:
    for tour in tours_in_every_encoding("openai_python", f"{server.url}/v1"):
        check_openai(tour)


def test_openai_agents_for_python(server: Server) -> None:
    tour = take_tour("agents_python", server.realtime_url)
    check(tour)
    assert tour["interrupted"] >= 1
    assert 0 < tour["truncated_ms"][-1] < 3000
    assert tour["history"][:2] == ["user", "assistant"]


def test_openai_agents_for_node(server: Server) -> None:
    tour = take_tour("agents_node", server.realtime_url)
    check(tour)
    assert tour["interrupted"] >= 1
    assert 0 < tour["truncated_ms"][-1] < 3000
    assert tour["history"][:2] == ["user", "assistant"]
    assert tour["added"] == "item_note"
    assert tour["not_understood"] == []


def test_pipecat(server: Server) -> None:
    tour = take_tour("pipecat_realtime", server.realtime_url)
    check_conversation(tour, [REPORT, GREETING, STORY, AFTERWARDS])
    assert 0 < len(tour["left_of_the_story"]) < len(tour["replies"][2]["said"])
    assert tour["errors"] == []


def test_livekit(server: Server) -> None:
    tour = take_tour("livekit_openai", f"{server.url}/v1")
    check_conversation(tour, [GREETING, STORY, AFTERWARDS, REPORT])
    assert (tour["truncated_ms"], tour["errors"]) == ([100], [])
    spoken = ["message"] * 6
    written = ["message", "function_call", "function_call_output", "message"]
    assert tour["history"] == [*spoken, *written]


def test_openai_for_python_in_the_dialect_of_the_beta(server: Server) -> None:
    tour = take_tour("openai_beta", f"{server.url}/v1")
    check_openai(tour)
    assert tour["session"] == ["verse", ["audio", "text"], 0.7]


def test_livekit_as_a_transcriber(server: Server) -> None:
    told = run_script("livekit_openai", "stt", f"{server.url}/v1")
    assert told["heard"] == [OPENING, WISH]
    assert "interim_transcript" in told["kinds"]


def test_pipecat_as_a_transcriber(server: Server) -> None:
    told = run_script("pipecat_realtime", "stt", server.realtime_url)
    assert told == {"heard": [OPENING, WISH], "errors": []}
