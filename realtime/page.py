"""The demo page at `/`, and the guard that keeps other pages out."""

from __future__ import annotations

import mimetypes
from http import HTTPStatus
from pathlib import Path

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from realtime.auth import origin_may_connect
from realtime.config import Config
from realtime.rest.errors import error_response

# The system's table may map .js to text/plain, and browsers then refuse modules and worklets.
for _suffix, _type in {".js": "text/javascript", ".mjs": "text/javascript"}.items():
    mimetypes.add_type(_type, _suffix)

_HIDDEN = (".py", ".pyc")


class Page(StaticFiles):
    """Static files that are always revalidated, so that a reload shows the server's version.

    otherwise: the application for what is not HTTP.
    """

    def __init__(self, folder: Path, otherwise: ASGIApp) -> None:
        super().__init__(directory=folder, html=True)
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a file, or refuse a socket nobody answers."""
        http = scope["type"] == "http"
        await (super().__call__ if http else self._otherwise)(scope, receive, send)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Refuses sources, and calls a path it does not have unknown whatever the method."""
        if path.endswith(_HIDDEN) or self.lookup_path(path)[1] is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


class OriginGuard:
    """Answers 403 to requests, sockets included, from web pages that may not use the server."""

    def __init__(self, app: ASGIApp, config: Config) -> None:
        self._app = app
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs before any route, and before a socket is accepted."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin_may_connect(self._config, origin, headers.get("host")):
            await self._app(scope, receive, send)
            return
        response = error_response(
            HTTPStatus.FORBIDDEN,
            f"Pages from {origin} may not use this server; its allowed_origins can list them.",
            code="origin_not_allowed",
        )
        if scope["type"] == "http":
            await response(scope, receive, send)
            return
        socket = WebSocket(scope, receive, send)
        if "websocket.http.response" in scope.get("extensions", {}):
            await socket.send_denial_response(response)
        else:
            await socket.close()
