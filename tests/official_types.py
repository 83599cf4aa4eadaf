"""Whether the official Python client, made strict, takes an event that the server has sent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from openai.types.beta.realtime import RealtimeServerEvent as BetaServerEvent
from openai.types.realtime import RealtimeServerEvent
from pydantic import BaseModel

EXTENSION = "sori."


@cache
def _models(union: Any = RealtimeServerEvent) -> dict[str, list[type[BaseModel]]]:
    found: dict[str, list[type[BaseModel]]] = {}
    for model in get_args(get_args(union)[0]):
        for name in get_args(model.model_fields["type"].annotation):
            found.setdefault(name, []).append(model)
    return found


def check_official(event: Mapping[str, Any]) -> None:
    """Raises ValidationError, or KeyError for a type that nobody knows.

    Two things are extensions of ours: events for who asked for them, and formats of audio that the
    client has no type for. The rest of an event with such a format is checked.
    """
    if event["type"].startswith(EXTENSION):
        return
    (model,) = _models()[event["type"]]
    model.model_validate(_with_known_formats(event))


def check_official_beta(event: Mapping[str, Any]) -> None:
    """The same of an event in the dialect of the beta.

    Its transcription session must have a client secret, of which on a socket there is none.
    """
    (model,) = _models(BetaServerEvent)[event["type"]]
    if event["type"] == "transcription_session.updated":
        secret = {"client_secret": {"value": "", "expires_at": 0}}
        event = {**event, "session": {**secret, **event["session"]}}
    model.model_validate(event)


def _with_known_formats(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.get("type") == "audio/opus":
            return {"type": "audio/pcmu"}
        if value.get("type") == "audio/pcm":
            return {**value, "rate": 24_000}
        return {key: _with_known_formats(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_known_formats(one) for one in value]
    return value
