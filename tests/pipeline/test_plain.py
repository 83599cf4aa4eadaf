"""Every message survives the way to another process."""

from __future__ import annotations

import dataclasses
import inspect
import pickle

import pytest

from pipeline import control, messages, pool
from pipeline.plain import Plain

KINDS = [
    kind
    for module in (messages, control, pool)
    for kind in vars(module).values()
    if inspect.isclass(kind) and dataclasses.is_dataclass(kind) and issubclass(kind, Plain)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_comes_back(kind: type[Plain]) -> None:
    # Plain values that tell the fields apart; what they mean does not matter to pickle.
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    value = kind(**{name: f"value of {name}" for name in names})
    copied = pickle.loads(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
    assert copied == value
    assert [getattr(copied, name) for name in names] == [f"value of {name}" for name in names]


def test_there_are_messages() -> None:
    assert {messages.Start, messages.End, control.Emit, pool.Lease} <= set(KINDS)
