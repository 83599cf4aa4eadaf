"""`POST /v1/realtime/client_secrets`: keys for browsers; and the beta's `/v1/realtime/sessions`."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import Field, RootModel

from realtime.client_secrets import ClientSecret, SecretTooLong
from realtime.driver import new_settings
from realtime.errors import ClientError
from realtime.opening import Opening
from realtime.protocol import beta
from realtime.protocol.wire import Wire
from realtime.rest.bodies import read_json
from realtime.rest.errors import ApiError
from realtime.rest.models import require_key
from realtime.service import Service
from realtime.session import Session

router = APIRouter(prefix="/v1/realtime", dependencies=[Depends(require_key)])

BETA_SECONDS = 60
MAX_BODY_NBYTES = 256 * 1024


class ExpiresAfter(Wire):
    """When the secret ends; sessions that it has opened go on."""

    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Field(ge=10, le=7200)] = 600


class SecretRequest(Wire):
    """Body of the request. session: as in a `session.update`."""

    expires_after: ExpiresAfter = ExpiresAfter()
    session: dict[str, Any] = {}


class BetaSession(RootModel[dict[str, Any]]):
    """Body of the beta's request: its session."""


@router.post("/client_secrets")
async def create_client_secret(request: Request) -> dict[str, Any]:
    """A secret, and the session that it opens."""
    body = await read_json(request, SecretRequest, MAX_BODY_NBYTES)
    session = {"type": "realtime", **body.session}
    value, expires_at, effective = _issue(request, session, body.expires_after.seconds)
    return {"value": value, "expires_at": expires_at, "session": effective}


@router.post("/sessions")
async def create_beta_session(request: Request) -> dict[str, Any]:
    """The beta's way: its session, with a secret in it."""
    return await _beta(request, "realtime")


@router.post("/transcription_sessions")
async def create_beta_transcription_session(request: Request) -> dict[str, Any]:
    """The same for transcription."""
    return await _beta(request, "transcription")


async def _beta(request: Request, kind: str) -> dict[str, Any]:
    body = await read_json(request, BetaSession, MAX_BODY_NBYTES)
    without = beta.NOT_IN_TRANSCRIPTION if kind == "transcription" else frozenset()
    try:
        session = {"type": kind, **beta.settings(body.root, "session", without)}
        value, expires_at, effective = _issue(request, session, BETA_SECONDS)
    except ClientError as error:
        raise _as_written(_refusal(error)) from error
    except ApiError as error:
        raise _as_written(error) from error
    secret = {"value": value, "expires_at": expires_at}
    return {**beta.session_told(effective), "client_secret": secret}


def _as_written(error: ApiError) -> ApiError:
    """With the names of the beta, whose body is the session."""
    message, param = (
        (beta.rename_params(text) or "").replace("session.", "")
        for text in (error.message, error.param)
    )
    return ApiError(error.status, message, code=error.code, param=param or None)


def _issue(
    request: Request, session: dict[str, Any], seconds: int
) -> tuple[str, int, dict[str, Any]]:
    """The secret, its end, and the effective session. Raises ApiError."""
    service: Service = request.app.state.service
    model = session.get("model")
    if isinstance(model, str) and not service.config.knows_model(model):
        message = f"The model '{model}' does not exist."
        raise ApiError(HTTPStatus.NOT_FOUND, message, code="model_not_found", param="session.model")
    opening = Opening(
        model=model if isinstance(model, str) else None,
        transcribes=session["type"] == "transcription",
        session=session,
    )
    expires_at = int(time.time()) + seconds
    try:
        settings = new_settings(service.config, opening, lacks=service.engine.lacks)
        effective = Session(settings).effective()
        value = service.client_secrets.issue(ClientSecret(expires_at, session))
    except ClientError as error:
        raise _refusal(error) from error
    except SecretTooLong as error:
        message = f"'session' is too long: {error}. Send the rest once connected."
        raise ApiError(
            HTTPStatus.BAD_REQUEST, message, code="invalid_value", param="session"
        ) from error
    return value, expires_at, effective.model_dump(mode="json")


def _refusal(error: ClientError) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, error.message, code=error.code, param=error.param)
