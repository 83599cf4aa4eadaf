"""`sori serve`: bind the port, run uvicorn in this process, end cleanly on a signal.

One process and one event loop: sessions live in memory, so a second worker or a reload could not
share them.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import cast

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from realtime.app import create_app
from realtime.config import Config
from realtime.joined_writes import JoinedWrites
from realtime.loop_lag import timed_loop
from realtime.service import Phase, Service

logger = logging.getLogger(__name__)

PING_S = 20.0
CLOSE_GRACE_S = 5.0


class BindError(Exception):
    """The address cannot be listened on. The message names it."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with joined writes, that drops a peer which does not read at its end.

    Closing flushes first, and would wait for ever for a client that has stopped reading.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection has become a socket."""
        joined = JoinedWrites(cast(asyncio.Transport, transport), self.loop)
        super().connection_made(joined)

    async def run_asgi(self) -> None:
        """Run the application, and give the peer a moment to take the rest."""
        await super().run_asgi()
        self.loop.call_later(CLOSE_GRACE_S, self.transport.abort)


class Server(uvicorn.Server):
    """A uvicorn server for which a signal is an ordinary end, with exit code 0.

    drain: what the first SIGTERM calls, in place of ending at once.
    """

    drain: Callable[[], object] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ask for a graceful end; a second signal does not skip freeing the engine."""
        drain, self.drain = self.drain, None
        if sig == signal.SIGTERM and drain is not None:
            drain()
        else:
            self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """Take the address, so that a port in use is known before anything is loaded.

    Raises BindError.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise BindError(f"cannot resolve host {host!r}: {error.strerror}") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise BindError(
                f"{host}:{port} is in use by another program; choose another with --port"
            ) from error
        raise BindError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.setblocking(False)
    return listener


def run(config: Config, listener: socket.socket) -> int:
    """Serve on a bound socket until a signal. Returns the exit code."""
    set_up_logging(config.log_level)
    app = create_app(config)
    service = cast(Service, app.state.service)
    with asyncio.Runner(loop_factory=partial(timed_loop, service.loop_lag)) as runner:
        return runner.run(_serve(config, app, listener))


def set_up_logging(level: str) -> None:
    """Our own lines on stderr; uvicorn's only when something is wrong."""
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    for name in ("uvicorn", "uvicorn.error", "websockets"):
        logging.getLogger(name).setLevel(logging.DEBUG if level == "debug" else logging.WARNING)


def _without_trace(record: logging.LogRecord) -> bool:
    """A client whose text frame is no UTF-8 is not worth a traceback of ours."""
    if record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError):
        record.exc_info = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True


def make_server(config: Config, app: FastAPI) -> Server:
    """uvicorn with the limits of the configuration."""
    logging.getLogger("uvicorn.error").addFilter(_without_trace)
    return Server(
        uvicorn.Config(
            app,
            workers=1,
            ws=SocketProtocol,
            ws_max_size=config.ws_max_size,
            ws_ping_interval=PING_S,
            ws_ping_timeout=PING_S,
            # Base64 of audio hardly shrinks, and deflating it costs the loop.
            ws_per_message_deflate=False,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=config.shutdown_timeout_s,
            ssl_certfile=config.tls_cert,
            ssl_keyfile=config.tls_key,
        )
    )


async def _serve(config: Config, app: FastAPI, listener: socket.socket) -> int:
    service = cast(Service, app.state.service)
    server = make_server(config, app)
    scheme = "https" if config.tls_cert else "http"
    host, port = listener.getsockname()[:2]
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    async with asyncio.TaskGroup() as tasks:
        loop = asyncio.get_running_loop()
        server.drain = partial(loop.call_soon_threadsafe, service.drain)
        draining = tasks.create_task(_drain(server, service, config.drain_timeout_s))
        serving = tasks.create_task(server.serve(sockets=[listener]))
        serving.add_done_callback(lambda _: draining.cancel())
        _say(f"sori: loading the models; {url}/ready tells when they are there")
        settled = tasks.create_task(service.settled.wait())
        await asyncio.wait([serving, settled], return_when=asyncio.FIRST_COMPLETED)
        settled.cancel()
        if service.phase is Phase.READY:
            _say(f"sori: ready. Open {url} and say something. (Ctrl-C ends it)")
        failed = service.phase is Phase.FAILED
        if failed:
            _say(f"sori: cannot start: {service.failure}")
            server.should_exit = True
    return 1 if failed else 0


async def _drain(server: Server, service: Service, timeout_s: float) -> None:
    """After the first SIGTERM: let what is in progress finish, for so long, and end."""
    await service.draining.wait()
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await service.drained.wait()
    server.should_exit = True


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
