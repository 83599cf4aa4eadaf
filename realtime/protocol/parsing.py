"""From a frame to an event, or to the one error that names what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json, to_json

from realtime.errors import ClientError
from realtime.protocol.client import (
    CLIENT_EVENT_TYPES,
    ClientEvent,
    ConversationItemCreate,
    SessionUpdate,
    client_events,
)
from realtime.protocol.items import AssistantMessage, UserMessage
from realtime.protocol.wire import MAX_ID_CHARS

MAX_TOLD_CHARS = 512 * 1024
"""Of an event whose content is told back. Several clients take no frame of more than 1 MiB."""

UNTOLD = ("audio", "image_url")
"""Keys of content whose values are not told back unasked."""

MAX_FRAME_VALUES = 20_000
"""In one frame: it is read on the loop, which a hundred thousand take a quarter of a second."""

MAX_FAULTS = 1000
"""That are looked at: each of them costs a kilobyte and ten microseconds."""

Model = TypeVar("Model", bound=BaseModel)

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)

_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "a boolean",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
    "list_type": "an array",
    "tuple_type": "an array",
    "none_required": "null",
}

_NAMES = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    dict: "an object",
    list: "an array",
    tuple: "an array",
    type(None): "null",
}


def parse_event(frame: str | bytes | Mapping[str, Any]) -> ClientEvent:
    """Read one frame of a client. Raises ClientError; bytes count as a binary frame.

    A mapping is taken as the JSON object it would be.
    """
    if isinstance(frame, bytes):
        raise ClientError(
            "invalid_event", "Binary frames are not part of this protocol; send JSON text frames."
        )
    text: str | bytes = frame if isinstance(frame, str) else to_json(dict(frame))
    if has_more_values(text, MAX_FRAME_VALUES):
        raise ClientError(
            "invalid_event", f"A frame may hold at most {MAX_FRAME_VALUES} values of JSON."
        )
    try:
        event = client_events.validate_json(text)
    except ValidationError as error:
        raise _explain_event(text, error) from error
    if len(text) > MAX_TOLD_CHARS:
        _require_tellable(event, len(text))
    return event


def _require_tellable(event: ClientEvent, chars: int) -> None:
    match event:
        case SessionUpdate():
            param = "session"
        case ConversationItemCreate(item=item):
            param = "item"
            parts = item.content if isinstance(item, UserMessage | AssistantMessage) else ()
            chars -= sum(len(getattr(part, key, None) or "") for part in parts for key in UNTOLD)
        case _:
            return
    if chars > MAX_TOLD_CHARS:
        message = f"Invalid '{param}': it is too long to be told back. At most {MAX_TOLD_CHARS} "
        message += "characters are allowed in the event, audio and pictures left out."
        raise ClientError("invalid_value", message, param, event.event_id)


def parse_config(model: type[Model], value: Mapping[str, Any], param: str) -> Model:
    """Check a JSON object that was put together here. Raises ClientError under `param`."""
    try:
        return model.model_validate_json(to_json(value))
    except ValidationError as error:
        raise explain(error, value, (param,)) from error


def has_more_values(text: str | bytes, limit: int) -> bool:
    """Whether a JSON text has more values than that. Exact for valid JSON, and quick for any."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if _count_values(data) <= limit:  # strings hold commas too, so this is the most it can be
        return False
    # A value has at most two strings, its key and itself; this is the least that there can be.
    quotes = data.count(b'"') - data.count(b'\\"')
    return quotes > 4 * limit or _count_values(_STRING.sub(b"", data)) > limit


def _count_values(data: bytes) -> int:
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def _explain_event(text: str | bytes, error: ValidationError) -> ClientError:
    try:
        document = from_json(text)
    except ValueError as fault:
        return ClientError("invalid_json", f"The frame is not valid JSON: {fault}.")
    if not isinstance(document, dict):
        return ClientError(
            "invalid_event",
            f"A frame must hold a JSON object, but got {name_of(document)} instead.",
        )
    event_id = event_id_of(document)
    if "type" not in document:
        return ClientError("invalid_event", "Missing required parameter: 'type'.", "type", event_id)
    kind = document["type"]
    if not isinstance(kind, str):
        return ClientError("invalid_type", _wrong_type("type", "a string", kind), "type", event_id)
    if kind not in CLIENT_EVENT_TYPES:
        message = (
            f"Invalid value: '{kind[:100]}'. Supported values are: {_listed(CLIENT_EVENT_TYPES)}."
        )
        return ClientError("invalid_value", message, "type", event_id)
    refusal = explain(error, document)
    refusal.event_id = event_id
    return refusal


def event_id_of(document: Mapping[str, Any]) -> str | None:
    """The client's id of an event, which an error about it carries; None if it is no right one."""
    event_id = document.get("event_id")
    return event_id if isinstance(event_id, str) and len(event_id) <= MAX_ID_CHARS else None


def explain(
    error: ValidationError, document: Mapping[str, Any], prefix: Sequence[str] = ()
) -> ClientError:
    """The most telling of pydantic's findings, in the words of the protocol."""
    if (count := error.error_count()) > MAX_FAULTS:
        message = f"There are {count} mistakes in this, too many to name them."
        return ClientError("invalid_value", message, _dotted(prefix) or None)
    findings = [(_path(finding, document), finding) for finding in error.errors(include_url=False)]
    # In a union each branch complains: the branch that got furthest is the one that was meant,
    # and a wrong value of the right type says more than a wrong type.
    path, finding = max(findings, key=lambda pair: (len(pair[0]), _weight(pair[1])))
    param = _dotted([*prefix, *path])
    return _translate(finding, param, [pair[1] for pair in findings if pair[0] == path])


def _weight(finding: ErrorDetails) -> int:
    if finding["type"] in _EXPECTED:
        return 0
    # A word was possible, but it is not one.
    return 1 if finding["type"] == "literal_error" and not isinstance(finding["input"], str) else 2


def _translate(
    finding: ErrorDetails, param: str, alternatives: Sequence[ErrorDetails]
) -> ClientError:
    kind, value, context = finding["type"], finding["input"], finding.get("ctx", {})
    if kind in ("missing", "union_tag_not_found"):
        return ClientError(
            "missing_required_parameter", f"Missing required parameter: '{param}'.", param
        )
    if kind == "extra_forbidden":
        return ClientError("unknown_parameter", f"Unknown parameter: '{param}'.", param)
    if kind in _EXPECTED:
        expected = dict.fromkeys(_EXPECTED[one["type"]] for one in alternatives)
        return ClientError("invalid_type", _wrong_type(param, " or ".join(expected), value), param)
    if kind == "union_tag_invalid":
        supported = str(context.get("expected_tags", "")).split(", ")
        tag = value.get(str(context.get("discriminator")).strip("'"))
        message = f"Invalid value: {_shown(tag)}. Supported values are: {_and(supported)}."
        return ClientError("invalid_value", message, param)
    if kind == "literal_error":
        others = [_EXPECTED[one["type"]] for one in alternatives if one["type"] in _EXPECTED]
        possible = " or ".join(dict.fromkeys([str(context.get("expected")), *others]))
        message = f"Invalid value: {_shown(value)}. Supported values are: {possible}."
        return ClientError("invalid_value", message, param)
    if kind in ("too_short", "too_long"):
        bound = "least" if kind == "too_short" else "most"
        limit = context.get("min_length" if kind == "too_short" else "max_length")
        counted = "a string" if isinstance(value, str) else name_of(value)
        unit = "characters" if isinstance(value, str) else "elements"
        message = f"Invalid '{param}': {counted} of at {bound} {limit} {unit} is expected, but it "
        message += f"has {context.get('actual_length')}."
        return ClientError("invalid_value", message, param)
    reason = finding["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return ClientError(
        "invalid_value",
        f"Invalid value for '{param}': {reason.rstrip('.')} (got {_shown(value)}).",
        param,
    )


def _path(finding: ErrorDetails, document: Any) -> list[str | int]:
    """Where in the document a finding is: pydantic's location without the tags of unions."""
    path: list[str | int] = []
    here = document
    location = finding["loc"]
    for depth, step in enumerate(location):
        if isinstance(here, Mapping) and step in here:
            here = here[str(step)]
        elif isinstance(here, list | tuple) and isinstance(step, int) and step < len(here):
            here = here[step]
        elif not (finding["type"] == "missing" and depth == len(location) - 1):
            continue
        path.append(step)
    if finding["type"] in ("union_tag_not_found", "union_tag_invalid"):
        path.append(str(finding["ctx"]["discriminator"]).strip("'"))
    return path


def _dotted(path: Sequence[str | int]) -> str:
    dotted = ""
    for step in path:
        dotted += f"[{step}]" if isinstance(step, int) else f".{step}" if dotted else step
    return dotted


def _wrong_type(param: str, expected: str, value: Any) -> str:
    return f"Invalid type for '{param}': expected {expected}, but got {name_of(value)} instead."


def name_of(value: Any) -> str:
    """What kind of JSON value this is, in words."""
    return _NAMES.get(type(value), "something else")


def _shown(value: Any) -> str:
    shown = f"'{value}'" if isinstance(value, str) else to_json(value, fallback=str).decode()
    return shown if len(shown) <= 100 else shown[:97] + "..."


def _listed(values: Sequence[str]) -> str:
    return _and([f"'{value}'" for value in values])


def _and(quoted: Sequence[str]) -> str:
    if len(quoted) < 3:
        return " and ".join(quoted)
    return ", ".join(quoted[:-1]) + f", and {quoted[-1]}"
