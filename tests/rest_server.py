"""A real server of scripted stages on a real port, and the stock OpenAI client."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from servers import scripted

from bench.server import Server, start_server

TEXT = "Hello. It is good to hear your voice."
CALLS = [
    {"name": "get_weather", "arguments": '{"city": "Paris"}'},
    {"name": "get_weather", "arguments": '{"city": "Seoul"}'},
]


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[Server]:
    """One server for all tests that only use it."""
    stages = scripted(thinker={"text": TEXT, "calls": CALLS})
    limits = {"max_body_bytes": 1 << 20, "max_file_bytes": 4 << 20, "max_input_audio_s": 20}
    with start_server({"stages": stages, **limits}) as server:
        yield server


@pytest.fixture
def client(scripted_server: Server) -> Iterator[openai.OpenAI]:
    """Of that server. Without retries, so that each answer is seen."""
    with openai.OpenAI(
        base_url=f"{scripted_server.url}/v1", api_key="unused", max_retries=0
    ) as opened:
        yield opened
