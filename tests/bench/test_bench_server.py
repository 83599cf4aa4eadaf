"""Starting `sori serve` for a measurement."""

import pytest

from bench.server import ServerError, start_server


def test_a_server_that_refuses_its_configuration_is_reported_with_its_own_words() -> None:
    with (
        pytest.raises(ServerError, match=r"ended with code 2[\s\S]*unknown key 'pacing_led_ms'"),
        start_server({"pacing_led_ms": 100}),
    ):
        raise AssertionError("it never starts")
