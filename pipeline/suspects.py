"""Requests that were in a worker when it died: one may have killed it.

A request that kills its worker takes the others in it along, and a client that asks again, or a
conversation that goes on, would do so for ever. After the second time it is refused. A bystander
that comes back with the same prompt is acquitted by its first good end.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from pipeline.messages import Start

DEATHS = 2
REMEMBERED = 1024

Given = Sequence[NDArray[Any]]
"""The recordings and pictures that go beside a Start."""


class Suspects:
    """How often a request of each content was in a worker that died."""

    def __init__(self) -> None:
        self._deaths: OrderedDict[bytes, set[int]] = OrderedDict()

    def accuse(self, start: Start, given: Given, death: int) -> None:
        """It was there when a worker died. death: which one; two alike are there at the same."""
        key = _content(start, given)
        self._deaths[key] = self._deaths.pop(key, set()) | {death}
        if len(self._deaths) > REMEMBERED:
            self._deaths.popitem(last=False)

    def acquit(self, start: Start, given: Given) -> None:
        """It has come to its end: it was a bystander."""
        if self._deaths:
            self._deaths.pop(_content(start, given), None)

    def convicted(self, start: Start, given: Given) -> bool:
        """Whether a request of this content is not to be tried again."""
        return bool(self._deaths) and len(self._deaths.get(_content(start, given), ())) >= DEATHS


def _content(start: Start, given: Given) -> bytes:
    """What makes two requests the same: all but who asks, and how urgently."""
    same = replace(start, request_id="", generation=0, session_id="", speculative=False, seed=0)
    digest = hashlib.blake2b(repr(same).encode(), digest_size=16)
    for array in given:
        digest.update(array.tobytes())
    return digest.digest()
