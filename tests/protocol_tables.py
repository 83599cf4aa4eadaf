"""Writes docs/events.md: every event and field, from our models and the official client's.

    python tests/protocol_tables.py

What a field does that its model cannot say stands in `NOTES`; a field that only the official types
have is refused by name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from openai.types import realtime as official
from pydantic import BaseModel
from pydantic.fields import FieldInfo

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS / "realtime"))

from wrong_events import Schema, Shape  # noqa: E402

from realtime.protocol.client import ClientEvent  # noqa: E402
from realtime.protocol.config import SessionConfig  # noqa: E402
from realtime.protocol.items import Item  # noqa: E402
from realtime.protocol.responses import Response, ResponseParams  # noqa: E402
from realtime.protocol.server import ServerEvent  # noqa: E402
from realtime.protocol.transcription import TranscriptionSession  # noqa: E402

PAGE = TESTS.parent / "docs" / "events.md"

NO_EFFECT = "accepted, no effect"
MAPPED = "mapped"
EXTENSION = "extension"

NOTES: dict[str, tuple[str, str]] = {
    "session.model": (MAPPED, "settled when the socket opens; any name is accepted later"),
    "session.audio.input.format.rate": (EXTENSION, "rates other than 24000 are resampled"),
    "session.audio.output.format.rate": (EXTENSION, "rates other than 24000 are resampled"),
    "session.audio.input.noise_reduction": (NO_EFFECT, "the ears work on the sound as it comes"),
    "session.audio.input.transcription.model": (MAPPED, "there is one Transcriber"),
    "session.audio.input.transcription.languages": (
        MAPPED,
        "the first is taken, unless there is a `language`",
    ),
    "session.audio.input.transcription.keywords": (MAPPED, "put before the `prompt`"),
    "session.audio.input.transcription.delay": (NO_EFFECT, ""),
    "session.audio.input.turn_detection.interrupt_confirm_ms": (EXTENSION, ""),
    "session.audio.output.voice": (MAPPED, "a voice that is not there is spoken by the default"),
    "session.audio.output.keeps_buffer": (EXTENSION, ""),
    "session.parallel_tool_calls": (NO_EFFECT, "the Thinker decides"),
    "session.reasoning": (NO_EFFECT, "the Thinker does not reason"),
    "session.tracing": (NO_EFFECT, "there are no traces"),
    "session.prompt": ("refused", "null is accepted; there are no hosted prompts"),
    "session.latency_first": (EXTENSION, ""),
    "response.parallel_tool_calls": (NO_EFFECT, "the Thinker decides"),
    "response.reasoning": (NO_EFFECT, "the Thinker does not reason"),
    "response.prompt": ("refused", "null is accepted; there are no hosted prompts"),
    "response.latency_first": (EXTENSION, ""),
    "response.audio.output.format.rate": (EXTENSION, "rates other than 24000 are resampled"),
    "response.audio.output.voice": (MAPPED, "a voice that is not there is spoken by the default"),
    "item.id": ("", "not `root`"),
    "item.status": (NO_EFFECT, "what a client brings is `completed`"),
    "item.content.audio": ("", "of a user; of the assistant only the transcript is taken"),
    "item.content.image_url": (
        "required",
        "a data URI; `unsupported_content_type` if the Thinker does not see",
    ),
    "item.content.detail": (NO_EFFECT, "the Thinker has its own resolution"),
}
"""Of fields, by their path without indices: how they are treated, and why."""

ON_A_SERVER_THAT_PLAYS = "output_audio_buffer.clear"
"""Known, and refused on a WebSocket."""

INTRODUCTION = """\
# Events and fields

Made by `python tests/protocol_tables.py` from the models that check the events; do not edit. What
the events mean and where Sori differs on purpose is told in [protocol.md](protocol.md).

A field without a remark is supported: it is checked and takes effect. *Mapped* means that a foreign
name is accepted and stands for what this server has. *Accepted, no effect* is for what stock
clients send without being asked. *Extensions* are Sori's own. All else is refused as an
`unknown_parameter`.
"""


def page() -> str:
    """The whole page."""
    sections = [
        INTRODUCTION,
        "## The session\n\nIn `session.update`, and echoed in `session.created` and "
        "`session.updated`\nwith `id`, `object` and `expires_at`.\n",
        _table(SessionConfig, "session"),
        "### Transcription sessions\n\nThey have of these fields `type` (`transcription`), "
        f"{_transcription_fields()}.\n",
        "## Client events\n",
        "All may carry an `event_id` of at most 512 characters, which comes back in the error "
        "about the event.\n",
        *_client_events(),
        "## Items\n",
        _table(ItemHolder, ""),
        "## Responses, as asked for\n\nIn `response.create`, under `response`. `input` holds items "
        "as above, and `{type: item_reference, id}`.\n",
        _table(ResponseParams, "response", leave_out=frozenset({"input"})),
        "## Server events\n\nAll carry an `event_id`.\n",
        *_server_events(),
        "## Refused\n\nWhat else the official client's types have. The error names the field.\n",
        *_refused(),
    ]
    return "\n".join(sections).rstrip() + "\n"


def rows(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, what it may be, default) of every field, those of unions by their type."""
    shape = Shape(model)
    yield from _rows(shape, shape.root, prefix, ())


def _rows(
    shape: Shape, schema: Schema, prefix: str, above: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    branches = [one for one in shape.branches(schema) if "properties" in one]
    for branch in branches:
        kind = _kind(branch) if len(branches) > 1 else ""
        name = f"{prefix} ({kind})" if kind else prefix
        for key, part in branch["properties"].items():
            path = f"{name}.{key}" if name else key
            if not (kind and key in ("type", "role")):
                default = part.get("default", ...)
                yield path, _described(shape, part), "" if default is ... else _shown(default)
            if key not in above:
                yield from _rows(shape, part, path, (*above, key) if key == "items" else above)
                if items := [one["items"] for one in shape.branches(part) if "items" in one]:
                    yield from _rows(shape, items[0], path + "[]", above)


def _kind(branch: Schema) -> str:
    properties = branch["properties"]
    kinds = [properties[key].get("const") for key in ("type", "role") if key in properties]
    return ", ".join(kind for kind in kinds if kind)


def _described(shape: Shape, schema: Schema) -> str:
    found = []
    for branch in shape.branches(schema):
        kind = branch.get("type", "anything")
        if "const" in branch or "enum" in branch:
            values = branch.get("enum", [branch.get("const")])
            kind = ", ".join(f"`{value}`" for value in values)
        elif "properties" in branch and (name := _kind(branch)):
            kind = f"object of type `{name}`"
        low, high = branch.get("minimum"), branch.get("maximum")
        if low is not None or high is not None:
            kind += f" from {low:g}" if low is not None else ""
            kind += f" to {high:g}" if high is not None else ""
        if "maxLength" in branch:
            kind += f" of at most {branch['maxLength']}"
        found.append(kind)
    return " or ".join(dict.fromkeys(found))


def _shown(default: Any) -> str:
    if isinstance(default, dict | list) and default:
        return ""
    if default is None or isinstance(default, bool):
        return f"`{str(default).lower()}`".replace("none", "null")
    return f"`{default}`" if default != "" else "empty"


def plain(path: str) -> str:
    """A path without the types of unions and without indices: a key of NOTES."""
    words = path.replace("[]", "").split(" (")
    return words[0] + "".join(word.partition(")")[2] for word in words[1:])


def _table(model: type[BaseModel], prefix: str, leave_out: frozenset[str] = frozenset()) -> str:
    lines = ["| field | is | default | |", "|---|---|---|---|"]
    for path, described, default in rows(model, prefix):
        key = plain(path)
        if any(key.removeprefix(f"{prefix}.").split(".")[0] == one for one in leave_out):
            continue
        status, note = NOTES.get(key, ("", ""))
        remark = ": ".join(word for word in (status, note) if word)
        lines.append(f"| `{path}` | {described} | {default} | {remark} |")
    return "\n".join(lines) + "\n"


def _transcription_fields() -> str:
    own = [plain(path) for path, _, _ in rows(TranscriptionSession, "session")]
    tops = [path for path in own if path.count(".") == 1 or path.count(".") == 3]
    words = [f"`{path.removeprefix('session.')}`" for path in tops if path != "session.type"]
    return ", ".join(one for one in words if one != "`audio`")


class ItemHolder(BaseModel):
    """Lets the union of items be walked."""

    item: Item


def _client_events() -> Iterator[str]:
    lines = ["| event | fields |", "|---|---|"]
    for event in get_args(ClientEvent):
        name = event.model_fields["type"].default
        fields = _fields(event, lambda field: not field.is_required())
        if name == ON_A_SERVER_THAT_PLAYS:
            fields = "refused on a WebSocket: the client plays the audio"
        lines.append(f"| `{name}` | {fields} |")
    yield "\n".join(lines) + "\n"


def _server_events() -> Iterator[str]:
    lines = ["| event | fields |", "|---|---|"]
    known = {name for one in _official_server_events() for name in one}
    for event in get_args(ServerEvent):
        name = event.model_fields["type"].default
        remark = "" if name in known else " (extension)"
        fields = _fields(event, lambda field: field.exclude_if is not None)
        lines.append(f"| `{name}`{remark} | {fields} |")
    yield "\n".join(lines) + "\n"
    told = ", ".join(f"`{key}`" for key in Response.model_fields)
    yield f"`response` has {told}.\n"


def _fields(event: type[BaseModel], may_be_absent: Callable[[FieldInfo], bool]) -> str:
    """What an event holds; a question mark is at what may be absent."""
    own = {key: one for key, one in event.model_fields.items() if key not in ("type", "event_id")}
    words = [f"`{key}`?" if may_be_absent(one) else f"`{key}`" for key, one in own.items()]
    return ", ".join(words) or "–"


def _official_server_events() -> Iterator[tuple[str, ...]]:
    for model in get_args(get_args(official.RealtimeServerEvent)[0]):
        yield get_args(model.model_fields["type"].annotation)


def _refused() -> Iterator[str]:
    pairs: list[tuple[str, type[BaseModel], type[BaseModel]]] = [
        ("session", official.RealtimeSessionCreateRequest, SessionConfig),
        ("response", official.RealtimeResponseCreateParams, ResponseParams),
    ]
    lines = ["- tools, tool choices and items of the types that begin with `mcp`"]
    for prefix, theirs, ours in pairs:
        known = {plain(path) for path, _, _ in rows(ours, prefix)}
        for path in dict.fromkeys(plain(path) for path, _, _ in rows(theirs, prefix)):
            told = path in known or path.endswith((".type", ".voice.id"))  # types are listed above
            if not told and not path.startswith(tuple(f"{prefix}.{one}" for one in OF_MCP)):
                lines.append(f"- `{path}`")
    yield "\n".join(lines) + "\n"


OF_MCP = ("tools", "tool_choice", "input", "tracing.", "prompt.")
"""Where the official types have more fields only for what is refused, or ignored, as a whole."""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
