"""When audio may be sent: at once at first, then never more than a lead ahead of its playback.

Sent too early it is lost bandwidth and words the user never hears after an interruption; too late
it is a gap. The server cannot see the loudspeaker, so it assumes that playback begins with the
first chunk and stands still while there is nothing to play.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Clock = Callable[[], float]


class Playhead:
    """The assumed playback of one reply. Pure: time comes in as an argument, in seconds."""

    def __init__(self, rate_hz: int, lead_ms: int) -> None:
        self.rate_hz = rate_hz
        self.lead_samples = lead_ms * rate_hz // 1000
        self.sent = 0
        self.underruns = 0
        # Playback last started (again) at this sample and time.
        self._anchor_sample = 0
        self._anchor_s = 0.0

    def played(self, now_s: float) -> int:
        """Samples heard by now."""
        if self.sent == 0:
            return 0
        since = round((now_s - self._anchor_s) * self.rate_hz)
        return min(self.sent, self._anchor_sample + max(0, since))

    def wait_s(self, samples: int, now_s: float) -> float:
        """Seconds until this many samples may be sent; 0 when there is nothing left to play."""
        played = self.played(now_s)
        if played == self.sent:
            return 0.0
        over = self.sent + samples - played - self.lead_samples
        return max(0, over) / self.rate_hz

    def send(self, samples: int, now_s: float) -> None:
        """Note that these samples have been sent."""
        if self.played(now_s) == self.sent:
            self.underruns += self.sent > 0
            self._anchor_sample = self.sent
            self._anchor_s = now_s
        self.sent += samples


class Pacer:
    """Waits for its playhead: one timer a chunk, no polling."""

    def __init__(self, playhead: Playhead, clock: Clock) -> None:
        self.playhead = playhead
        self._clock = clock

    async def admit(self, samples: int) -> int:
        """Wait until the samples may go, count them as sent, and tell how many have been heard.

        Safe to cancel: nothing is counted then.
        """
        wait_s = self.playhead.wait_s(samples, self._clock())
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        now_s = self._clock()
        self.playhead.send(samples, now_s)
        return self.playhead.played(now_s)
