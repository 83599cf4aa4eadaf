"""When nobody has said anything for too long after an answer: `idle_timeout_ms`.

The clock is the microphone: a session without audio has no time.
"""

from __future__ import annotations


class IdleTimer:
    """Armed by the end of a response, it goes off once. Positions in samples of the input."""

    def __init__(self) -> None:
        self._armed = False
        self._quiet_from: int | None = None

    def arm(self) -> None:
        """A response has ended: from the end of its playback on, silence counts."""
        self._armed = True

    def hear(self, at: int, *, busy: bool, limit: int | None) -> int | None:
        """Take the time. busy: somebody speaks, or is about to. limit: None switches it off.

        Returns where the silence began, if it has lasted for the limit now.
        """
        if busy or limit is None:
            self._quiet_from = None
            return None
        if not self._armed:
            return None
        if self._quiet_from is None:
            self._quiet_from = at
        if at - self._quiet_from < limit:
            return None
        began, self._quiet_from, self._armed = self._quiet_from, None, False
        return began
