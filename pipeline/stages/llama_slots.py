"""Which request runs in which of llama.cpp's slots, and which waits.

A slot keeps what it has computed of the last prompt. So a session goes back to its slot, and waits
for it if the reply in it has just been cancelled: elsewhere its whole prompt would be computed
again, at 10 ms a token. llama.cpp's own choice, the slot with the most similar prompt, sends all
sessions with the same instructions to one slot.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from pipeline.messages import StageMessage, Start

__all__ = ["Reply", "Slots"]


@dataclass(slots=True, eq=False)
class Reply:
    """One request, shared by its thread and the runner's.

    slot: where it runs. at_home: that slot holds the last prompt of the same session.
    """

    start: Start
    received: deque[StageMessage] = field(default_factory=deque)
    cancelled: threading.Event = field(default_factory=threading.Event)
    slot: int = 0
    at_home: bool = False


@dataclass(slots=True)
class _Slot:
    index: int
    session_id: str = ""  # whose prompt it holds
    reply: Reply | None = None  # what runs in it
    used: int = 0  # when it was last taken, in requests


class Slots:
    """Safe to call from any thread."""

    def __init__(self, count: int) -> None:
        self._slots = [_Slot(index) for index in range(count)]
        self._waiting: list[Reply] = []
        self._taken = 0
        self._lock = threading.Lock()

    def add(self, reply: Reply) -> None:
        """Put a request in the queue."""
        with self._lock:
            self._waiting.append(reply)

    def take(self) -> Reply | None:
        """The next request that can run, with its slot; None if none can.

        First what is no speculation, then the session that has the least running, then the oldest.
        What runs in the background comes last, and leaves one slot to the others.
        """
        with self._lock:
            self._waiting = [reply for reply in self._waiting if not reply.cancelled.is_set()]
            free = sum(slot.reply is None for slot in self._slots)
            for reply in sorted(self._waiting, key=self._urgency):
                if reply.start.background and free < min(2, len(self._slots)):
                    continue
                if (slot := self._choose(reply.start.session_id)) is not None:
                    self._waiting.remove(reply)
                    self._occupy(slot, reply)
                    return reply
            return None

    def free(self, reply: Reply) -> None:
        """The request's slot can be taken again."""
        with self._lock:
            self._slots[reply.slot].reply = None

    def _urgency(self, reply: Reply) -> tuple[bool, bool, int]:
        session_id = reply.start.session_id
        running = [slot.reply.start.session_id for slot in self._slots if slot.reply is not None]
        crowded = running.count(session_id) if session_id else 0
        return reply.start.background, reply.start.speculative, crowded

    def _home(self, session_id: str) -> _Slot | None:
        if not session_id:
            return None
        return next((slot for slot in self._slots if slot.session_id == session_id), None)

    def _choose(self, session_id: str) -> _Slot | None:
        home = self._home(session_id)
        if home is not None:
            if home.reply is None:
                return home
            if home.reply.cancelled.is_set():
                return None
        free = [slot for slot in self._slots if slot.reply is None]
        return min(free, key=lambda slot: (bool(slot.session_id), slot.used), default=None)

    def _occupy(self, slot: _Slot, reply: Reply) -> None:
        session_id = reply.start.session_id
        home = self._home(session_id)
        self._taken += 1
        slot.used = self._taken
        slot.reply = reply
        # A second request of a session beside its first leaves the session's home where it is.
        slot.session_id = session_id if home in (None, slot) else ""
        reply.slot = slot.index
        reply.at_home = home is slot
