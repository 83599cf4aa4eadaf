"""What all clients in Python speak with: 24 kHz PCM16 in blocks of 20 ms, in real time.

Standard library only: it runs in the environment of each client.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

RATE_HZ = 24_000
BLOCK_MS = 20
BLOCK_NBYTES = RATE_HZ * BLOCK_MS // 1000 * 2
OPENING_MS, WISH_MS, STOP_MS = 300, 600, 900

_PERIOD = (8000).to_bytes(2, "little", signed=True) * 60 + (-8000).to_bytes(
    2, "little", signed=True
) * 60  # 200 Hz: to scripted ears everything loud is speech
VOICE = (_PERIOD * (BLOCK_NBYTES // len(_PERIOD) + 1))[:BLOCK_NBYTES]
SILENCE = bytes(BLOCK_NBYTES)


class Microphone:
    """Silence, and what `say` puts between it."""

    def __init__(self) -> None:
        self._voiced = 0
        self._due_s = time.monotonic()

    def say(self, length_ms: int) -> None:
        """Speak from the next block on."""
        self._voiced = length_ms // BLOCK_MS

    def block(self) -> bytes:
        """The next 20 ms."""
        voiced, self._voiced = self._voiced > 0, max(self._voiced - 1, 0)
        self._due_s += BLOCK_MS / 1000
        return VOICE if voiced else SILENCE

    def left_s(self) -> float:
        """How long until the next block is due."""
        return max(0.0, self._due_s - time.monotonic())

    async def stream(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Give every block to `send`, when it is due, until cancelled."""
        while True:
            await send(self.block())
            await asyncio.sleep(self.left_s())
