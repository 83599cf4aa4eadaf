"""`/v1/models`: what a client may name as `model`."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends, Request

from pipeline.abilities import Ability
from realtime.auth import admits, offered_key
from realtime.config import Config
from realtime.rest.errors import ApiError
from realtime.service import Service

_BOOTED_S = int(time.time())


def require_key(request: Request) -> None:
    """A dependency of every `/v1` route: 401 unless the key is right."""
    service: Service = request.app.state.service
    if not admits(service.config, offered_key(request.headers)):
        raise ApiError(
            HTTPStatus.UNAUTHORIZED, "Incorrect API key provided.", code="invalid_api_key"
        )


router = APIRouter(prefix="/v1", dependencies=[Depends(require_key)])


CAPABILITIES = {
    "realtime": True,
    "chat_completions": True,
    "speech": True,
    "transcriptions": True,
    "input_modalities": ["text", "audio"],
    "output_modalities": ["text", "audio"],
    "tools": True,
    "response_format": ["text", "json_object", "json_schema"],
}
"""An extension of the model object."""


def _model(name: str, service: Service) -> dict[str, Any]:
    mark = service.engine.mark
    return {
        "id": name,
        "object": "model",
        "created": _BOOTED_S,
        "owned_by": "sori",
        "capabilities": _capabilities(service.engine.sees, service.engine.lacks),
        "watermark": {"backend": mark.backend, "payload": mark.payload} if mark else None,
    }


def _capabilities(sees: bool, lacks: frozenset[Ability]) -> dict[str, Any]:
    return CAPABILITIES | {
        "speech": Ability.READS not in lacks,
        "input_modalities": ["text", "audio", *(["image"] if sees else [])],
        "tools": Ability.CALLS not in lacks,
        "response_format": ["text"] if Ability.SHAPES in lacks else CAPABILITIES["response_format"],
    }


def known_model(config: Config, name: str) -> None:
    """Raises ApiError for a model that the server does not answer to."""
    if not config.knows_model(name):
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            f"The model '{name}' does not exist.",
            code="model_not_found",
            param="model",
        )


@router.get("/models")
async def list_models(request: Request) -> dict[str, Any]:
    """The one model; aliases are patterns and are not listed."""
    service: Service = request.app.state.service
    return {"object": "list", "data": [_model(service.config.model, service)]}


@router.get("/models/{name:path}")
async def retrieve_model(request: Request, name: str) -> dict[str, Any]:
    """The model itself or an alias of it, under the name that was asked for."""
    service: Service = request.app.state.service
    known_model(service.config, name)
    return _model(name, service)
