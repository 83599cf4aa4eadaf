"""Reads a request's body: bounded, as JSON, and checked against a model."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from realtime.protocol.parsing import explain, has_more_values, name_of
from realtime.rest.errors import ApiError

Model = TypeVar("Model", bound=BaseModel)

OFF_LOOP_NBYTES = 256 * 1024
"""Longer bodies are parsed in a thread."""

MAX_VALUES = 100_000
"""In one body. Every message, part and field is one; each may be a mistake that has to be told."""


async def read_json(request: Request, model: type[Model], max_nbytes: int) -> Model:
    """The body as a `model`. Raises ApiError: 413, 415, or 400 naming the parameter."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"Unsupported content type: '{kind}'. Send the request as 'application/json'.",
            code="unsupported_content_type",
        )
    body = await read_body(request, max_nbytes)
    if len(body) > OFF_LOOP_NBYTES:
        return await asyncio.to_thread(_parse, body, model)
    return _parse(body, model)


async def read_body(request: Request, max_nbytes: int) -> bytes:
    """All of it, unless it is longer than allowed: then no more than that is read."""
    declared = request.headers.get("content-length", "")
    body = bytearray()
    if not declared.isdigit() or int(declared) <= max_nbytes:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_nbytes:
                break
        else:
            return bytes(body)
    raise too_large(max_nbytes)


def too_large(max_nbytes: int) -> ApiError:
    """A body beyond the limit."""
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The request body is too large. At most {max_nbytes} bytes are allowed.",
        code="request_too_large",
    )


def _parse(body: bytes, model: type[Model]) -> Model:
    if has_more_values(body, MAX_VALUES):
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"The request body has more than {MAX_VALUES} values of JSON.",
            code="invalid_value",
        )
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _explained(body, error) from error


def _explained(body: bytes, error: ValidationError) -> ApiError:
    try:
        document: Any = from_json(body)
    except ValueError as fault:
        return ApiError(
            HTTPStatus.BAD_REQUEST,
            f"We could not parse the JSON body of your request: {fault}.",
            code="invalid_json",
        )
    if not isinstance(document, dict):
        return ApiError(
            HTTPStatus.BAD_REQUEST,
            f"The request body must be a JSON object, but it is {name_of(document)}.",
            code="invalid_type",
        )
    refusal = explain(error, document)
    return ApiError(HTTPStatus.BAD_REQUEST, refusal.message, code=refusal.code, param=refusal.param)
