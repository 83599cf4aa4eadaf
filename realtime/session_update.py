"""What `session.update` makes of a session: merged, checked as a whole, or refused as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pipeline.abilities import Ability
from realtime import errors
from realtime.errors import ClientError
from realtime.protocol.config import FunctionTool, NamedFunction, SessionConfig, ToolChoice
from realtime.protocol.parsing import parse_config
from realtime.protocol.wire import Wire


class _Kind(Wire):
    type: Literal["realtime", "transcription"]


# Values that a new one replaces as a whole, though both are objects.
_WHOLE = frozenset({"tracing", "tool_choice"})


def updated(
    current: SessionConfig,
    update: Mapping[str, Any],
    *,
    voice_locked: bool,
    lacks: frozenset[Ability] = frozenset(),
) -> SessionConfig:
    """The session after the update. Only keys that are present change. Raises ClientError.

    voice_locked: the current voice has been heard. lacks: what the models cannot do.
    """
    require_type(update)
    merged = merge(current.model_dump(mode="json"), update)
    config = parse_config(SessionConfig, merged, "session")
    require_function(config.tool_choice, config.tools, "session.tool_choice")
    if Ability.CALLS in lacks and config.tools and config.tool_choice != "none":
        raise errors.no_calls("session.tools")
    if Ability.PACES in lacks and config.audio.output.speed != 1.0:
        raise errors.no_pace("session.audio.output.speed")
    if voice_locked and config.audio.output.voice != current.audio.output.voice:
        raise errors.locked_voice()
    # Every SDK sends a model; it was settled when the socket opened.
    return config.model_copy(update={"model": current.model})


def require_type(update: Mapping[str, Any]) -> None:
    """Every update says which kind of session it is for. Raises ClientError."""
    if "type" not in update:
        raise ClientError(
            "missing_required_parameter",
            "Missing required parameter: 'session.type'.",
            "session.type",
        )
    parse_config(_Kind, {"type": update["type"]}, "session")


def require_function(choice: ToolChoice, tools: tuple[FunctionTool, ...], param: str) -> None:
    """A function that must be called has to be one of the tools. Raises ClientError."""
    if isinstance(choice, NamedFunction) and choice.name not in {tool.name for tool in tools}:
        raise ClientError(
            "invalid_value",
            f"Invalid value for '{param}': the function '{choice.name}' is not in tools.",
            param,
        )


def merge(current: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration's JSON with what the update has: objects key by key, all else replaced."""
    merged = dict(current)
    for key, new in update.items():
        old = merged.get(key)
        merged[key] = new
        if isinstance(old, dict) and isinstance(new, dict) and key not in _WHOLE:
            # Another type has other keys: nothing of the old one can stay.
            if new.get("type", old.get("type")) == old.get("type"):
                merged[key] = merge(old, new)
    return merged
