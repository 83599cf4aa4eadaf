"""HTTP errors in the shape that OpenAI's SDKs read, whatever raised them."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from realtime.rest.request_id import HEADER

logger = logging.getLogger(__name__)


class ApiError(Exception):
    """A refusal with everything its body needs. Raised by routes."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.status = status
        self.message = message
        self.code = code
        self.param = param


class ClientLeft(Exception):
    """Nobody waits for the answer any more."""


def bad_request(message: str, param: str, code: str = "invalid_value") -> ApiError:
    """The refusal of one parameter, by its dotted path."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, code=code, param=param)


MISSING = "missing_required_parameter"
"""The code of a refusal."""

CLIENT_CLOSED_REQUEST = 499
"""What web servers log for a request whose client left; nobody reads the answer."""


def error_body(
    status: int, message: str, *, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """All four keys are there even when they are null: SDKs rely on it."""
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        kind = "requests"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_response(
    status: int, message: str, *, code: str | None = None, param: str | None = None
) -> JSONResponse:
    """An error on its way out."""
    body = error_body(status, message, code=code, param=param)
    return JSONResponse(body, status_code=status)


def refusal(error: ApiError) -> JSONResponse:
    """The answer that a route's ApiError becomes."""
    response = error_response(error.status, error.message, code=error.code, param=error.param)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    return response


def install_error_handlers(app: FastAPI) -> None:
    """Answer every error of this app in one shape."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(ClientLeft, _client_left)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(Exception, _server_error)


async def _api_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return refusal(error)


async def _client_left(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path}"
    messages = {
        HTTPStatus.NOT_FOUND: f"Unknown path: {what}",
        HTTPStatus.METHOD_NOT_ALLOWED: f"Method not allowed: {what}",
    }
    message = messages.get(HTTPStatus(error.status_code), str(error.detail))
    response = error_response(error.status_code, message)
    response.headers.update(error.headers or {})
    return response


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    # The first part of the location says where it was sent (body, query), not what.
    param = ".".join(str(part) for part in problem["loc"][1:]) or None
    missing = problem["type"] == "missing"
    message = (
        f"Missing required parameter: '{param}'."
        if missing
        else f"Invalid value for '{param}': {problem['msg']}."
    )
    code = MISSING if missing else "invalid_value"
    return error_response(HTTPStatus.UNPROCESSABLE_ENTITY, message, code=code, param=param)


async def _server_error(request: Request, error: Exception) -> JSONResponse:
    # This handler runs outside of all middleware.
    request_id = str(request.scope.get("request_id"))
    what = f"{request.method} {request.url.path}"
    logger.error("%s failed, request %s", what, request_id, exc_info=error)
    response = error_response(
        HTTPStatus.INTERNAL_SERVER_ERROR, "The server had an error while processing your request."
    )
    response.headers[HEADER] = request_id
    return response
