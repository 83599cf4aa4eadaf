"""Real servers for tests that talk to one over its socket."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from bench.server import Server, start_server

Serve = Callable[..., Server]

SCRIPTED = {
    name: {"kind": f"scripted_{name}"}
    for name in ("ears", "transcriber", "thinker", "talker", "voicebox")
}
"""`stages` of a server without models."""


def scripted(**options: Mapping[str, Any]) -> dict[str, Any]:
    """`stages` of a server without models, with options by stage name."""
    return {name: {**stage, "options": options.get(name, {})} for name, stage in SCRIPTED.items()}


@pytest.fixture(scope="session")
def model_server() -> Iterator[Server]:
    """One server with the embedded models and default settings, for all tests that only use it."""
    with start_server() as server:
        yield server


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers with given keys; they are stopped at the end of the test."""
    with contextlib.ExitStack() as servers:

        def start(config: Mapping[str, Any] | None = None, **options: Any) -> Server:
            return servers.enter_context(start_server(config, **options))

        yield start
