"""Reads uploaded forms: bounded, with long files on disk."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import Message

from realtime.rest.bodies import too_large
from realtime.rest.errors import ApiError

MAX_FIELDS = 64


async def read_form(request: Request, max_nbytes: int) -> dict[str, list[Any]]:
    """All values of each field; a file is an `UploadFile`. Raises ApiError: 400, 413 or 415.

    Files beyond a megabyte lie in temporary files, which vanish with the request.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"Unsupported content type: '{kind}'. Send the request as 'multipart/form-data'.",
            code="unsupported_content_type",
        )
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_nbytes:
        raise too_large(max_nbytes)
    seen = 0

    async def receive() -> Message:
        nonlocal seen
        message = await request.receive()
        seen += len(message.get("body", b""))
        if seen > max_nbytes:
            raise too_large(max_nbytes)
        return message

    bounded = Request(request.scope, receive)
    try:
        form = await bounded.form(max_files=1, max_fields=MAX_FIELDS)
    except HTTPException as error:
        raise ApiError(
            HTTPStatus.BAD_REQUEST, f"The form cannot be read: {error.detail}", code="invalid_form"
        ) from error
    values: dict[str, list[Any]] = {}
    for name, value in form.multi_items():
        values.setdefault(name, []).append(value)
    return values
