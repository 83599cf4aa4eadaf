"""Real servers for tests that talk to one over its socket: fixtures for all folders of tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from scripted_engine import scripted_stages

from bench.server import Server, start_server

Serve = Callable[..., Server]

READY_TIMEOUT_S = 60.0
"""Below the timeout of a test, so that a server that does not come up is reported by its log."""


def scripted(**options: dict[str, Any]) -> dict[str, Any]:
    """`stages` of a server without models, each a process; options by stage name."""
    return scripted_stages("process", **options).model_dump()


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
            options.setdefault("ready_timeout_s", READY_TIMEOUT_S)
            return servers.enter_context(start_server(config, **options))

        yield start
