"""A real `sori serve` in a process of its own, for as long as a benchmark or a test needs it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.05
LOG_TAIL = 4000


class ServerError(Exception):
    """The server did not come up, or did not stop. The message ends with the tail of its log."""


@dataclass(slots=True)
class Server:
    """A running server. It leads a process group of its own, as a shell's job does."""

    process: subprocess.Popen[bytes]
    port: int
    log_path: Path
    certificate: Path | None = None

    @property
    def url(self) -> str:
        """Base of the HTTP routes."""
        return f"http{'s' if self.certificate else ''}://127.0.0.1:{self.port}"

    @property
    def realtime_url(self) -> str:
        """The socket."""
        return f"ws{'s' if self.certificate else ''}://127.0.0.1:{self.port}/v1/realtime"

    def log(self) -> str:
        """Everything it has written to stdout and stderr."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def get(self, path: str) -> tuple[int, Any]:
        """Status and body (parsed if it is JSON) of one GET. Raises OSError."""
        with contextlib.closing(self._connection()) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
            if "json" in response.headers.get("Content-Type", ""):
                return response.status, json.loads(body)
            return response.status, body.decode()

    def _connection(self) -> http.client.HTTPConnection:
        if self.certificate is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        trust = ssl.create_default_context(cafile=self.certificate)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=trust)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until `/ready` says 200. Raises ServerError if it ends, or takes too long."""
        deadline_s = time.monotonic() + timeout_s
        reason = "it did not answer"
        while time.monotonic() < deadline_s:
            if self.process.poll() is not None:
                raise self._error(f"the server ended with code {self.process.returncode}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, body = self.get("/ready")
                if status == http.client.OK:
                    return
                reason = f"/ready says {status}: {body}"
            time.sleep(POLL_S)
        raise self._error(f"the server was not ready within {timeout_s:g} s ({reason})")

    def interrupt(self) -> None:
        """What Ctrl-C in a terminal does: SIGINT to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """SIGTERM, then wait. Returns the exit code. Raises ServerError after killing it."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            self.process.wait()
            raise self._error(f"the server did not stop within {timeout_s:g} s") from error

    def _error(self, what: str) -> ServerError:
        return ServerError(f"{what}\n{self.log()[-LOG_TAIL:]}")


@contextlib.contextmanager
def start_server(
    config: Mapping[str, Any] | Path | None = None,
    *,
    port: int | None = None,
    environment: Mapping[str, str] | None = None,
    wait: bool = True,
    ready_timeout_s: float = READY_TIMEOUT_S,
) -> Iterator[Server]:
    """Run `sori serve` on a port of loopback, by default a free one, and stop it at the end.

    config: keys, or the path of a file of them; with `tls_cert` among the keys, that certificate is
    trusted. wait: until it is ready. Raises ServerError with the tail of its log.
    """
    with tempfile.TemporaryDirectory(prefix="sori-server-") as folder:
        if isinstance(config, Path):
            settings = config
        else:
            settings = Path(folder) / "config.yaml"
            settings.write_text(json.dumps(dict(config or {})), encoding="utf-8")  # JSON is YAML
        port = port or free_port()
        command = [sys.executable, "-m", "realtime", "serve"]
        command += ["--config", str(settings), "--port", str(port)]
        log_path = Path(folder) / "server.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        certificate = None if isinstance(config, Path) else (config or {}).get("tls_cert")
        server = Server(process, port, log_path, certificate and Path(certificate))
        try:
            if wait:
                server.wait_ready(ready_timeout_s)
            yield server
        finally:
            server.stop()


def end_on_sigterm() -> None:
    """Make SIGTERM unwind this process, so that the servers it has started are stopped too."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def free_port() -> int:
    """A port of loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
