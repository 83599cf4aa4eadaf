"""An id for each HTTP request, in a header of its answer: SDKs tell it with every error."""

from __future__ import annotations

import secrets

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-request-id"


class RequestId:
    """Adds `x-request-id` to every answer. The id is new: a client cannot choose it.

    It is in the scope as `request_id`, for the log.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sockets pass as they are."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        request_id = scope["request_id"] = f"req_{secrets.token_hex(16)}"

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(raw=message["headers"])[HEADER] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)
