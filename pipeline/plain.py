"""Values that cross between processes by the thousand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any


class Plain:
    """Base of a dataclass that is pickled as a call of its class with its fields.

    What `dataclass(frozen=True, slots=True)` does by itself, field by field in Python, takes two to
    three times as long, at each end of every message.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """For pickle."""
        kind: Any = type(self)
        return kind, _reader(kind)(self)


@cache
def _reader(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    names = [field.name for field in fields(kind)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)
