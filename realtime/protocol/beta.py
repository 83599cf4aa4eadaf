"""The dialect of the protocol's beta, which older clients speak: its events from and to today's.

Only JSON objects are handled here. What is wrong with a value is found by the models of today's
events; `rename_params` then says it in the client's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from realtime.errors import ClientError

HEADER, HEADER_VALUE = "openai-beta", "realtime=v1"
SUBPROTOCOL = "openai-beta.realtime-v1"

TRANSLATED = (
    "session.update",
    "transcription_session.update",
    "conversation.item.create",
    "response.create",
)
"""Client events that differ between the dialects. All others are the same in both."""

Json = dict[str, Any]

DEFAULT_TEMPERATURE = 0.8
_TEMPERATURES = (0.6, 1.2)

_PLACES = {
    "input_audio_format": ("audio", "input", "format"),
    "input_audio_transcription": ("audio", "input", "transcription"),
    "input_audio_noise_reduction": ("audio", "input", "noise_reduction"),
    "turn_detection": ("audio", "input", "turn_detection"),
    "output_audio_format": ("audio", "output", "format"),
    "voice": ("audio", "output", "voice"),
    "speed": ("audio", "output", "speed"),
    "modalities": ("output_modalities",),
    "max_response_output_tokens": ("max_output_tokens",),
}
"""Where a key of a beta session, or of a beta response, is today."""

NOT_IN_RESPONSES = frozenset(
    {key for key, path in _PLACES.items() if path[:2] == ("audio", "input")} | {"speed"}
)
NOT_IN_TRANSCRIPTION = frozenset(
    {key for key, path in _PLACES.items() if path[:2] != ("audio", "input")} | {"temperature"}
)
"""Keys that only a session that answers has."""

_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_FORMAT_NAMES = {new: old for old, new in _FORMATS.items()}

_CONTENT = {"text": "output_text", "audio": "output_audio"}
_CONTENT_NAMES = {new: old for old, new in _CONTENT.items()}

_EVENTS = {
    "conversation.item.added": "conversation.item.created",
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
    "response.output_text.delta": "response.text.delta",
    "response.output_text.done": "response.text.done",
}

# -- from the client -------------------------------------------------------------------------------


def is_beta_session(session: Mapping[str, Any]) -> bool:
    """Whether a `session.update` is written in the beta's way: no type, and one of its own keys."""
    return "type" not in session and any(key in session for key in (*_PLACES, "temperature"))


def client_event(event: Json) -> Json:
    """A beta event as today's. Raises ClientError where only the beta's own words explain it."""
    match event:
        case {"type": "session.update", "session": dict(session)} if "type" not in session:
            return {**event, "session": {"type": "realtime", **settings(session, "session")}}
        case {"type": "transcription_session.update"}:
            new = {**event, "type": "session.update"}
            if isinstance(given := event.get("session"), dict):
                given = settings(given, "session", without=NOT_IN_TRANSCRIPTION)
                new["session"] = {"type": "transcription", **given}
            return new
        case {"type": "conversation.item.create", "item": dict(item)}:
            return {**event, "item": _item(item, _CONTENT)}
        case {"type": "response.create", "response": dict(response)}:
            return {**event, "response": _response_asked(response)}
    return event


def settings(given: Json, param: str, without: frozenset[str] = frozenset()) -> Json:
    """The keys of a beta session or response, each put in its place. Raises ClientError.

    `temperature` is checked and left out: there is none any more. without: keys that it cannot
    have, which must be named before they are in a place of which the client knows nothing.
    """
    if wrong := sorted(without & given.keys()):
        place = f"{param}.{wrong[0]}"
        raise ClientError("unknown_parameter", f"Unknown parameter: '{place}'.", place)
    new: Json = {key: value for key, value in given.items() if key not in _PLACES}
    _check_temperature(new.pop("temperature", None), param)
    new.pop("client_secret", None)
    for key in _PLACES.keys() & given.keys():
        value = given[key]
        *path, last = _PLACES[key]
        here = _inside(new, path, param)
        if key.endswith("_format"):
            value = _format(value, f"{param}.{key}")
        elif key == "modalities" and isinstance(value, list) and "audio" in value:
            value = [one for one in value if one != "text"]
        here[last] = value
    if isinstance(choice := new.get("tool_choice"), dict) and "function" in choice:
        name = choice["function"].get("name") if isinstance(choice["function"], dict) else None
        new["tool_choice"] = {"type": "function", "name": name}
    return new


def _inside(whole: Json, path: Sequence[str], param: str) -> Json:
    """The object at a path, made where it is not there yet. Raises ClientError."""
    here = whole
    for step in path:
        param = f"{param}.{step}"
        inner = here.get(step, {})
        if not isinstance(inner, dict):
            message = f"Invalid type for '{param}': expected an object."
            raise ClientError("invalid_type", message, param)
        here[step] = here = dict(inner)
    return here


def _response_asked(response: Json) -> Json:
    new = settings(response, "response", without=NOT_IN_RESPONSES)
    if isinstance(items := new.get("input"), list):
        new["input"] = [_item(item, _CONTENT) if isinstance(item, dict) else item for item in items]
    return new


def _format(value: Any, param: str) -> Any:
    if isinstance(value, dict):
        return value  # today's way to say it
    if not isinstance(value, str):
        message = f"Invalid type for '{param}': expected a string."
        raise ClientError("invalid_type", message, param)
    if value not in _FORMATS:
        message = f"Invalid value: '{value[:100]}'. Supported values are: {', '.join(_FORMATS)}."
        raise ClientError("invalid_value", message, param)
    return {"type": _FORMATS[value]}


def _check_temperature(value: Any, param: str) -> None:
    low, high = _TEMPERATURES
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f"Invalid type for '{param}.temperature': expected a number."
        raise ClientError("invalid_type", message, f"{param}.temperature")
    if not low <= value <= high:
        message = f"Invalid value for '{param}.temperature': must be from {low} to {high}."
        raise ClientError("invalid_value", message, f"{param}.temperature")


def _item(item: Json, names: Mapping[str, str]) -> Json:
    content = item.get("content")
    if item.get("role") != "assistant" or not isinstance(content, list):
        return item
    return {**item, "content": [_part(part, names) for part in content]}


def _part(part: Any, names: Mapping[str, str]) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    return {**part, "type": names.get(kind, kind)} if isinstance(kind, str) else part


# -- to the client ---------------------------------------------------------------------------------


def server_event(event: Json, temperature: float = DEFAULT_TEMPERATURE) -> Json | None:
    """Today's event as the beta's; None for one that it does not have."""
    kind = event["type"]
    if kind == "conversation.item.done":
        return None
    new = {**event, "type": _EVENTS.get(kind, kind)}
    if "item" in event:
        new["item"] = _item(event["item"], _CONTENT_NAMES)
    if "response" in event:
        new["response"] = _response_told(event["response"], temperature)
    if "session" in event:
        new["session"] = session_told(event["session"], temperature)
        if event["session"]["type"] == "transcription":
            new["type"] = f"transcription_{kind}"
    if "error" in event and kind == "error":
        new["error"] = {
            **event["error"],
            "param": rename_params(event["error"]["param"]),
            "message": rename_params(event["error"]["message"]),
        }
    return new


def session_told(session: Json, temperature: float = DEFAULT_TEMPERATURE) -> Json:
    """An effective session as the beta shows it."""
    new = _flat(session)
    del new["type"]
    if session["type"] == "transcription":
        return new
    if new["modalities"] == ["audio"]:
        new["modalities"] = ["audio", "text"]
    return {**new, "temperature": temperature}


def _response_told(response: Json, temperature: float) -> Json:
    new = _flat({**response, "max_output_tokens": None})
    del new["max_response_output_tokens"]
    if new["modalities"] == ["audio"]:
        new["modalities"] = ["audio", "text"]
    new["output"] = [_item(item, _CONTENT_NAMES) for item in response["output"]]
    return {**new, "max_output_tokens": response["max_output_tokens"], "temperature": temperature}


def _flat(nested: Json) -> Json:
    flat = {key: value for key, value in nested.items() if key not in _NEW_KEYS}
    for key, path in _PLACES.items():
        here: Any = nested
        for step in path:
            here = here.get(step, _ABSENT) if isinstance(here, dict) else _ABSENT
        if here is _ABSENT:
            continue
        flat[key] = _FORMAT_NAMES.get(here["type"], here["type"]) if "_format" in key else here
    return flat


_ABSENT = object()
_NEW_KEYS = frozenset(path[0] for path in _PLACES.values())
_PARAMS = {".".join(path): key for key, path in _PLACES.items()}


def rename_params(text: str | None) -> str | None:
    """Today's names of parameters, in a `param` or a message, by the names of the beta."""
    if text is None:
        return None
    for new, old in _PARAMS.items():
        for owner in ("session", "response"):
            text = text.replace(f"{owner}.{new}", f"{owner}.{old}")
    return text
