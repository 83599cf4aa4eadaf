"""What every model of the protocol shares: frozen, strict, and closed to unknown keys."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Wire(BaseModel):
    """A value that crosses the socket."""

    # Keys come again and again, ids and words do not: by default they would all be kept, process
    # wide, up to 16,384 of them.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, cache_strings="keys"
    )


def absent(value: Any) -> bool:
    """Whether a field is left out of the JSON. Clients trip over null where they expect no key."""
    return value is None


def _finite(value: Any) -> Any:
    match value:
        case float() if not isfinite(value):
            raise ValueError("a finite number in every place")
        case dict():
            for inner in value.values():
                _finite(inner)
        case list():
            for inner in value:
                _finite(inner)
    return value


# The models' own check ends where anything goes; NaN would be told back as null.
FreeObject = Annotated[dict[str, Any], AfterValidator(_finite)]
"""A JSON object whose keys are the client's own."""

MAX_ID_CHARS = 512

ItemId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
PreviousItemId = Annotated[str, Field(max_length=MAX_ID_CHARS)]
EventId = Annotated[str, Field(max_length=MAX_ID_CHARS)]
Index = Annotated[int, Field(ge=0)]
