"""Requests that were in a worker when it died: one may have killed it.

A request that kills its worker takes the others in it along, and a client that asks again, or a
conversation that goes on, would do so for ever. After the second time it is refused. A bystander
that comes back with the same prompt is acquitted by its first good end.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipeline.messages import Start

DEATHS = 2
REMEMBERED = 1024


class Suspects:
    """How often a request of each content was in a worker that died."""

    def __init__(self) -> None:
        self._deaths: OrderedDict[bytes, set[int]] = OrderedDict()

    def accuse(self, start: Start, audio: NDArray[np.int16] | None, death: int) -> None:
        """It was there when a worker died. death: which one; two alike are there at the same."""
        key = _content(start, audio)
        self._deaths[key] = self._deaths.pop(key, set()) | {death}
        if len(self._deaths) > REMEMBERED:
            self._deaths.popitem(last=False)

    def acquit(self, start: Start, audio: NDArray[np.int16] | None) -> None:
        """It has come to its end: it was a bystander."""
        if self._deaths:
            self._deaths.pop(_content(start, audio), None)

    def convicted(self, start: Start, audio: NDArray[np.int16] | None) -> bool:
        """Whether a request of this content is not to be tried again."""
        return bool(self._deaths) and len(self._deaths.get(_content(start, audio), ())) >= DEATHS


def _content(start: Start, audio: NDArray[np.int16] | None) -> bytes:
    """What makes two requests the same: all but who asks, and how urgently."""
    same = replace(start, request_id="", generation=0, session_id="", speculative=False, seed=0)
    digest = hashlib.blake2b(repr(same).encode(), digest_size=16)
    if audio is not None:
        digest.update(audio.tobytes())
    return digest.digest()
