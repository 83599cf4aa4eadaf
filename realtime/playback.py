"""What the listener has heard of the last spoken reply, as far as the server can reckon it.

On a WebSocket the client plays the audio. It may tell by `conversation.item.truncate` how far it
came; if it does not, the model would believe that everything sent was heard. The driver's playhead
knows better: it runs on after `response.done`, until what was sent must have been played.
"""

from __future__ import annotations

from realtime.conversation import Spoken


class Playback:
    """Of the conversation's last spoken reply, while some of it is still to be heard."""

    def __init__(self) -> None:
        self.response_id: str | None = None
        self._spoken = Spoken()
        self._played: int | None = None

    def follow(self, response_id: str, spoken: Spoken) -> None:
        """More of this reply has been sent; one before it is no longer listened to."""
        if response_id != self.response_id:
            self.response_id, self._spoken, self._played = response_id, spoken, None

    def note(self, response_id: str, samples: int) -> None:
        """This much of a reply has been played, at 24 kHz. Other replies are of no interest."""
        if response_id == self.response_id:
            self._played = samples

    @property
    def sounding(self) -> bool:
        """Whether some of it is still to be heard, as far as is known."""
        return self.response_id is not None and (self._played or 0) < self._spoken.sent_samples

    def cut(self) -> None:
        """The user speaks or the client cancels, and stops playing: the model forgets the rest.

        Without a playhead nothing is known, and nothing is cut.
        """
        if self._played is not None:
            self._spoken.reckon(self._played)
        self.response_id = None
