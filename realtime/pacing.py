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
        self._paused_s: float | None = None  # since when playback stands still
        # Playback last started (again) at this sample and time.
        self._anchor_sample = 0
        self._anchor_s = 0.0

    def played(self, now_s: float) -> int:
        """Samples heard by now."""
        if self.sent == 0:
            return 0
        if self._paused_s is not None:
            now_s = self._paused_s
        since = round((now_s - self._anchor_s) * self.rate_hz)
        return min(self.sent, self._anchor_sample + max(0, since))

    def pause(self, now_s: float) -> None:
        """Playback stands still until `resume`."""
        if self._paused_s is None:
            self._paused_s = now_s

    def resume(self, now_s: float) -> None:
        """Playback goes on where it stopped."""
        if self._paused_s is not None:
            self._anchor_s += now_s - self._paused_s
            self._paused_s = None

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
        self._going = asyncio.Event()
        self._going.set()

    def pause(self) -> None:
        """Admit nothing until `resume`."""
        self._going.clear()
        self.playhead.pause(self._clock())

    def resume(self) -> None:
        """Go on. Without a pause before, nothing changes."""
        self.playhead.resume(self._clock())
        self._going.set()

    async def going(self) -> None:
        """Wait while paused."""
        await self._going.wait()

    async def admit(self, samples: int) -> int:
        """Wait until the samples may go, count them as sent, and tell how many have been heard.

        Safe to cancel: nothing is counted then.
        """
        await self.going()
        while (wait_s := self.playhead.wait_s(samples, self._clock())) > 0:
            await asyncio.sleep(wait_s)
            await self.going()
        now_s = self._clock()
        self.playhead.send(samples, now_s)
        return self.playhead.played(now_s)
