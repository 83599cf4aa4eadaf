"""Keys and origins: who gets in."""

from __future__ import annotations

import pytest

from realtime.auth import admits, answered_subprotocol, offered_key, origin_may_connect
from realtime.config import Config


def test_a_key_is_found_in_each_place_clients_put_it() -> None:
    browser = ["realtime", "openai-insecure-api-key.k3", "openai-agents-sdk.0.20.0"]

    assert offered_key({"authorization": "Bearer k1"}) == "k1"
    assert offered_key({"api-key": "k2"}) == "k2"
    assert offered_key({}, browser) == "k3"
    assert offered_key({"authorization": "Basic abc"}) is None


def test_the_handshake_never_answers_with_the_key() -> None:
    assert answered_subprotocol(["openai-insecure-api-key.k", "realtime"]) == "realtime"
    assert answered_subprotocol(["openai-insecure-api-key.k"]) is None


def test_keys_are_asked_for_only_when_there_are_any() -> None:
    assert admits(Config(), None)
    keyed = Config(api_keys=("a", "b"))
    assert admits(keyed, "b")
    assert not admits(keyed, "c")
    assert not admits(keyed, None)
    assert not admits(keyed, "ключ")
    assert admits(Config(api_keys=("a",), allow_anonymous=True), None)


@pytest.mark.parametrize(
    ("origin", "host", "may"),
    [
        (None, "127.0.0.1:8000", True),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", True),
        ("http://localhost:8000", "localhost:8000", True),
        ("http://[::1]:8000", "[::1]:8000", True),
        ("http://localhost", "localhost:80", True),
        ("http://localhost:3000", "localhost:8000", False),
        ("https://evil.example", "127.0.0.1:8000", False),
        ("http://rebound.example:8000", "rebound.example:8000", False),
        ("null", "127.0.0.1:8000", False),
        ("http://127.0.0.1:8000", None, False),
        ("http://[bad", "127.0.0.1:8000", False),
        ("http://127.0.0.1:99999", "127.0.0.1:99999", False),
        ("https://app.example", "127.0.0.1:8000", True),
    ],
)
def test_pages_from_elsewhere_are_refused_unless_configured(
    origin: str | None, host: str | None, may: bool
) -> None:
    config = Config(allowed_origins=("https://app.example/",))

    assert origin_may_connect(config, origin, host) is may


def test_a_public_server_serves_its_own_page_under_any_name() -> None:
    config = Config(host="0.0.0.0", api_keys=("k",))

    assert origin_may_connect(config, "https://voice.example", "voice.example")
    assert not origin_may_connect(config, "https://other.example", "voice.example")
