"""`/v1/realtime`: the socket around a session. Who gets in, what goes out, and how it ends.

Every way a connection can end is an `Ended` with its close code, raised by whoever noticed, and
turned into a close frame in one place.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from realtime.auth import admits, answered_subprotocol, offered_key
from realtime.client_secrets import ClientSecret
from realtime.config import Config
from realtime.driver import Driver, new_id
from realtime.errors import ClientError
from realtime.opening import Opening, opening_of
from realtime.outbox import Outbox
from realtime.protocol.server import Error, ErrorBody, dump_event
from realtime.service import Service

logger = logging.getLogger(__name__)
router = APIRouter()

PATH = "/v1/realtime"
INTERNAL_SCOPE_KEY = "sori.internal"
"""Set by the server's own warm-up in the ASGI scope, which no network peer can reach."""

FAREWELL_S = 1.0


@dataclass(frozen=True, slots=True)
class Farewell:
    """How a connection ends: an error event, if there is something to say, and the close frame."""

    code: int
    reason: str
    error_code: str = ""
    message: str = ""
    error_type: str = "invalid_request_error"


class Ended(Exception):
    """The connection is over; None when the peer has gone already."""

    def __init__(self, farewell: Farewell | None) -> None:
        super().__init__(farewell)
        self.farewell = farewell


SERVER_FAULT = Farewell(1011, "server_error", "", "The server had an error.", "server_error")
SHUTTING_DOWN = Farewell(
    1012,
    "server_error.shutting_down",
    "shutting_down",
    "The server is shutting down. Connect again in a moment.",
    "server_error",
)
SLOW_READER = Farewell(
    1013,
    "server_error.slow_reader",
    "slow_reader",
    "The client reads too slowly; what waited for it was over max_outgoing_bytes.",
)


@router.websocket(PATH)
async def realtime(websocket: WebSocket) -> None:
    """Accept, and only then refuse: clients read the reason from an event, not from HTTP."""
    service: Service = websocket.app.state.service
    await websocket.accept(subprotocol=answered_subprotocol(websocket.scope["subprotocols"]))
    if (refusal := why_refused(service, websocket)) is not None:
        service.metrics.sessions_refused.labels(refusal.error_code).inc()
        await say_farewell(websocket, refusal)
        return
    scope, secret = websocket.scope, secret_of(service, websocket)
    opening = opening_of(
        websocket.query_params,
        websocket.headers,
        scope["subprotocols"],
        secret.session if secret is not None else None,
    )
    await Connection(websocket, service, opening).run()


def why_refused(service: Service, websocket: WebSocket) -> Farewell | None:
    """None if the connection may become a session."""
    config = service.config
    if websocket.scope.get(INTERNAL_SCOPE_KEY) is service:
        return None
    secret = secret_of(service, websocket)
    key = offered_key(websocket.headers, websocket.scope["subprotocols"])
    if service.client_secrets.looks_like_one(key):
        if secret is None:
            return wrong_key("The client secret is not this server's, or has expired.")
    elif not admits(config, key):
        return wrong_key("Incorrect API key provided.")
    if (refusal := why_not_there(config, websocket.query_params, secret)) is not None:
        return refusal
    if (reason := service.why_not_ready()) is not None:
        return Farewell(
            1013, "server_error.not_ready", "not_ready", f"Not ready: {reason}.", "server_error"
        )
    if service.is_full():
        return Farewell(
            1013,
            "server_error.too_many_sessions",
            "too_many_sessions",
            f"The server is at its limit of {config.max_sessions} sessions; try again later.",
            "server_error",
        )
    return None


def why_not_there(
    config: Config, query: Mapping[str, str], secret: ClientSecret | None
) -> Farewell | None:
    """The refusal of what a URL asks for and this server does not have."""
    model = query.get("model")
    if model and not config.knows_model(model):
        return Farewell(
            4000,
            "invalid_request_error.invalid_model",
            "invalid_model",
            f"The model '{model}' does not exist; this server's model is '{config.model}'.",
        )
    if "call_id" in query:
        return Farewell(
            4000,
            "invalid_request_error.invalid_call_id",
            "invalid_call_id",
            "This server has no calls to attach to; open a session without 'call_id'.",
        )
    intent = query.get("intent")
    if intent not in (None, "transcription"):
        return Farewell(
            4000,
            "invalid_request_error.invalid_intent",
            "invalid_intent",
            f"The intent '{intent}' does not exist; leave it out, or ask for 'transcription'.",
        )
    if intent and secret is not None and secret.session.get("type") != intent:
        return Farewell(
            4000,
            "invalid_request_error.invalid_intent",
            "invalid_intent",
            "The client secret is for a session that answers; make one for a session of type "
            "'transcription', or leave out the intent.",
        )
    return None


def wrong_key(message: str) -> Farewell:
    """The refusal of a key."""
    reason = "invalid_request_error.invalid_api_key"
    return Farewell(3000, reason, "invalid_api_key", message)


def refused_session(error: ClientError) -> Farewell:
    """The refusal of what a connection was opened with."""
    return Farewell(4000, f"invalid_request_error.{error.code}", error.code or "", error.message)


def secret_of(service: Service, websocket: WebSocket) -> ClientSecret | None:
    """What the client secret carries with which a connection was opened, if it was with one."""
    key = offered_key(websocket.headers, websocket.scope["subprotocols"])
    return service.client_secrets.read(key or "", time.time())


async def say_farewell(websocket: WebSocket, farewell: Farewell) -> None:
    """Send the last event and the close frame, to a peer that may not be listening."""
    try:
        async with asyncio.timeout(FAREWELL_S):
            if farewell.message:
                await websocket.send_text(error_frame(farewell))
            await websocket.close(farewell.code, farewell.reason)
    except (TimeoutError, WebSocketDisconnect, RuntimeError):
        # Gone, or closed from the other side meanwhile: nobody is left to tell.
        logger.debug("no farewell: the peer has gone")


def error_frame(farewell: Farewell) -> str:
    """The `error` event that tells why the connection ends."""
    body = ErrorBody(
        type=farewell.error_type,
        code=farewell.error_code or None,
        message=farewell.message,
        param=None,
        event_id=None,
    )
    return dump_event(Error(event_id=new_id("event"), error=body))


class Connection:
    """One client's socket and session, from accept to close."""

    def __init__(self, websocket: WebSocket, service: Service, opening: Opening) -> None:
        self._websocket = websocket
        self._opening = opening
        self._service = service
        self._config = service.config
        self._outbox = Outbox(service.config.max_outgoing_bytes)
        self._heard_s = time.monotonic()

    async def run(self) -> None:
        """Serve until either side ends it. Leaves no task behind."""
        self._service.sessions.add(self)
        self._service.metrics.sessions.inc()
        try:
            farewell = await self._serve()
        finally:
            self._service.sessions.discard(self)
            self._service.note_end()
            self._service.metrics.sessions.dec()
        if farewell is not None:
            logger.info("closing: %d %s", farewell.code, farewell.reason)
            await say_farewell(self._websocket, farewell)

    async def _serve(self) -> Farewell | None:
        endings: list[Farewell | None] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._write())
                tasks.create_task(self._watch_backlog())
                tasks.create_task(self._watch_idleness())
                if self._websocket.scope.get(INTERNAL_SCOPE_KEY) is not self._service:
                    tasks.create_task(self._watch_age())
                with self._begin(tasks) as driver:
                    tasks.create_task(self._watch_drain(driver))
                    await self._read(driver)
        except* Ended as group:
            endings += [error.farewell for error in _leaves(group) if isinstance(error, Ended)]
        except* Exception:  # boundary of a connection: one client's fault stays its own
            logger.exception("a connection failed")
            endings.append(SERVER_FAULT)
        # The peer having gone outranks everything that broke because of it.
        return None if None in endings else endings[0]

    def _begin(self, tasks: asyncio.TaskGroup) -> Driver:
        try:
            return Driver(self._service, tasks, self._outbox.put, opening=self._opening)
        except ClientError as error:
            # A client secret was made where its session was possible: by another server with the
            # same key, or before this one was configured anew.
            raise Ended(refused_session(error)) from error

    async def _read(self, driver: Driver) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                raise Ended(None)
            self._heard_s = time.monotonic()
            text = message.get("text")
            if text is None:
                driver.refuse_binary()
            else:
                await driver.receive(text)

    async def _write(self) -> None:
        while True:
            frame = await self._outbox.get()
            try:
                await self._websocket.send_text(frame)
            except (WebSocketDisconnect, RuntimeError) as error:
                raise Ended(None) from error

    async def _watch_backlog(self) -> None:
        await self._outbox.overflowed.wait()
        raise Ended(SLOW_READER)

    async def _watch_idleness(self) -> None:
        limit_s = self._config.idle_timeout_s
        # One timer from message to message, instead of setting and cancelling one for each.
        while (left_s := self._heard_s + limit_s - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left_s)
        raise Ended(
            Farewell(
                1001,
                "Your session was idle.",
                "session_idle",
                f"Nothing was received for {limit_s:g} seconds.",
            )
        )

    async def _watch_drain(self, driver: Driver) -> None:
        """When the server shuts down, finish the reply and leave."""
        await self._service.draining.wait()
        await driver.quiet.wait()
        await self._outbox.emptied()
        raise Ended(SHUTTING_DOWN)

    async def _watch_age(self) -> None:
        limit_s = self._config.max_session_s
        await asyncio.sleep(limit_s)
        length = f"{limit_s / 60:g} minutes" if limit_s >= 60 else f"{limit_s:g} seconds"
        text = f"Your session hit the maximum duration of {length}."
        raise Ended(Farewell(1001, text, "session_expired", text))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
