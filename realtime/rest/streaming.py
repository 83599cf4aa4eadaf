"""Answers that are sent while they are made."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from realtime.rest.errors import ApiError, ClientLeft, error_body, refusal
from realtime.rest.work import place, while_connected
from realtime.service import Service

logger = logging.getLogger(__name__)

SSE = "text/event-stream; charset=utf-8"


def sse(document: Mapping[str, Any] | str) -> bytes:
    """One server-sent event."""
    data = document if isinstance(document, str) else json.dumps(document, separators=(",", ":"))
    return f"data: {data}\n\n".encode()


class StreamedAnswer(Response):
    """Sends the pieces of an async generator as they come, and closes it when the client leaves.

    It has a place among the running requests until then. Before the first piece, an error is an
    ordinary error answer; after it, an event of the stream, or (audio) the end of the connection.
    """

    def __init__(
        self, service: Service, pieces: Callable[[], AsyncIterator[bytes]], media_type: str
    ) -> None:
        super().__init__(media_type=media_type, headers={"Cache-Control": "no-cache"})
        # The length is not known.
        self.raw_headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        self._service = service
        self._pieces = pieces
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run to the end, or until the client leaves."""
        with suppress(ClientLeft):
            await while_connected(receive, self._send(scope, receive, send))

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with place(self._service):
                pieces: Any = self._pieces()
                async with aclosing(pieces):
                    async for piece in pieces:
                        await self._begin(send)
                        await _body(send, piece)
            await self._begin(send)
            await _body(send, b"", more=False)
        except ApiError as error:
            await self._fail(error, scope, receive, send)
        except OSError:
            raise
        except Exception:
            logger.exception("%s failed, request %s", scope["path"], scope.get("request_id"))
            fault = ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "The server had an error.")
            await self._fail(fault, scope, receive, send)

    async def _begin(self, send: Send) -> None:
        if not self._begun:
            self._begun = True
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

    async def _fail(self, error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._begun:
            await refusal(error)(scope, receive, send)
            return
        if self.media_type != SSE:
            # A whole file would be taken for one; broken off, it is not.
            raise RuntimeError(f"{scope['path']} broke off: {error.message}")
        body = error_body(error.status, error.message, code=error.code, param=error.param)
        await _body(send, sse(body))
        await _body(send, b"", more=False)


async def _body(send: Send, piece: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": more})
