"""What in a JSON schema would keep llama.cpp's grammar busy for minutes, and everybody waiting."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["schema_fault"]

MAX_CHOICES = 500
"""Values of an enum, schemas of an anyOf or oneOf, optional properties of an object. Each token is
tried against each of them: on one core 500 cost 0.3 s a token, 2,000 cost 2 s, 20,000 minutes."""

_BOUNDS = (
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minimum", "maximum"),
)
_REPEATED = re.compile(r"\{(\d{1,18}),(\d{1,18})\}")
_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_ONES = ("items", "additionalProperties", "not", "contains", "additionalItems")


def schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Why no grammar should be made of it; None if nothing is known against it."""
    left: list[Any] = [schema]
    while left:
        one = left.pop()
        if not isinstance(one, Mapping):
            continue
        if (fault := _fault_of(one)) is not None:
            return fault
        left += _inner(one)
    return None


def _fault_of(one: Mapping[str, Any]) -> str | None:
    for low, high in _BOUNDS:
        least, most = one.get(low), one.get(high)
        # llama.cpp counts from one to the other, and past the end of its integers.
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            return f"'{low}' is above '{high}'"
    pattern = one.get("pattern")
    if isinstance(pattern, str):
        for least, most in _REPEATED.findall(pattern):
            if int(least) > int(most):
                return f"'pattern' repeats something {least} to {most} times"
    for name in ("enum", "anyOf", "oneOf"):
        choices = one.get(name)
        if isinstance(choices, list | tuple) and len(choices) > MAX_CHOICES:
            return f"'{name}' has {len(choices)} elements; at most {MAX_CHOICES} are possible"
    properties, required = one.get("properties"), one.get("required")
    if isinstance(properties, Mapping):
        needed = required if isinstance(required, list | tuple) else ()
        optional = len(properties) - len({str(name) for name in needed} & properties.keys())
        if optional > MAX_CHOICES:
            return f"{optional} properties are not required; at most {MAX_CHOICES} may be so"
    return None


def _inner(one: Mapping[str, Any]) -> Iterator[Any]:
    for name in _MAPS:
        if isinstance(inner := one.get(name), Mapping):
            yield from inner.values()
    for name in _LISTS:
        if isinstance(inner := one.get(name), list | tuple):
            yield from inner
    for name in _ONES:
        yield one.get(name)
