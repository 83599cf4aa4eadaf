"""`sori serve` as a person starts it: TLS, keys from the environment, a signal at a bad moment."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from process_tree import wait_until
from servers import Serve, scripted
from websockets.asyncio.client import connect

from bench.server import free_port

SLOW = {"stages": scripted(thinker={"first_ms": 60_000})}


@contextmanager
def self_signed(folder: Path, port: int) -> Iterator[None]:
    """A ready server with `--tls-self-signed`; it must end with code 0."""
    config, log = folder / "config.yaml", folder / "log"
    config.write_text(json.dumps({"home": str(folder), "stages": scripted()}))
    command = [sys.executable, "-m", "realtime", "serve", "--config", str(config)]
    command += ["--port", str(port), "--tls-self-signed"]
    with (
        log.open("w") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as server,
    ):
        try:
            ready = f"sori: ready. Open https://127.0.0.1:{port} "
            wait_until(lambda: ready in log.read_text(), 60, "ready")
            yield
        finally:
            server.terminate()
    assert server.returncode == 0


async def test_a_self_signed_server_is_reached_over_wss_by_who_trusts_its_certificate(
    tmp_path: Path,
) -> None:
    port = free_port()
    with self_signed(tmp_path, port):
        trust = ssl.create_default_context(cafile=tmp_path / "tls" / "self-signed.pem")
        url = f"wss://localhost:{port}/v1/realtime"
        async with connect(url, ssl=trust, host="127.0.0.1") as client:
            assert json.loads(await client.recv())["type"] == "session.created"


def test_a_signal_before_the_server_is_ready_ends_it_with_code_0(serve: Serve) -> None:
    server = serve(SLOW, wait=False)

    def warming() -> bool:
        try:
            return bool(server.get("/ready")[1]["status"] == "warming")
        except OSError:
            return False  # not listening yet

    wait_until(warming, 60, "warming up")

    assert server.stop() == 0


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"SORI_PROT": "1"}, "sori: unknown environment variable SORI_PROT"),
        ({"SORI_HOST": "0.0.0.0"}, "api_keys"),
        ({"SORI_STAGES__TALKER__KIND": "singer"}, "singer"),
    ],
)
def test_a_configuration_that_cannot_work_ends_the_start_in_one_line(
    variables: dict[str, str], words: str, serve: Serve
) -> None:
    server = serve({"stages": scripted()}, wait=False, environment=variables)

    assert server.process.wait(30) in (1, 2)
    assert words in server.log()
    assert "Traceback" not in server.log()
