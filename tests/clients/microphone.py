"""What all clients in Python speak with, blocks of 20 ms in real time, and their command lines.

Standard library only: it runs in the environment of each client.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

RATE_HZ = 24_000
BLOCK_MS = 20
OPENING_MS, WISH_MS, STOP_MS = 300, 600, 900

# To scripted ears everything loud is speech: a square wave of 200 Hz at a quarter of full scale.
# Of each encoding its rate, and a sample when it is silent, high and low.
_SAMPLES = {
    "audio/pcm": (RATE_HZ, b"\x00\x00", b"\x40\x1f", b"\xc0\xe0"),
    "audio/pcmu": (8000, b"\xff", b"\xa0", b"\x20"),
    "audio/pcma": (8000, b"\xd5", b"\x8a", b"\x0a"),
}


def options(arguments: list[str]) -> dict[str, str]:
    """`name=value…` of a command line."""
    return dict(pair.split("=", 1) for pair in arguments)


def write(file: str, audio: bytes) -> None:
    """Everything that a client has heard."""
    Path(file).write_bytes(audio)


class Microphone:
    """Silence, and what `say` and `play` put between it."""

    def __init__(self, encoding: str = "audio/pcm") -> None:
        rate_hz, silent, high, low = _SAMPLES[encoding]
        self._silence = silent * (rate_hz * BLOCK_MS // 1000)
        half_period = rate_hz // 400
        self._voice = (high * half_period + low * half_period) * (200 * BLOCK_MS // 1000)
        self._waiting = b""
        self._due_s = time.monotonic()

    def say(self, length_ms: int) -> None:
        """Speak from the next block on."""
        self._waiting = self._voice * (length_ms // BLOCK_MS)

    def play(self, file: str) -> None:
        """Speak a recording in the microphone's encoding, without a header."""
        self._waiting = Path(file).read_bytes()

    def block(self) -> bytes:
        """The next 20 ms."""
        nbytes = len(self._silence)
        block, self._waiting = self._waiting[:nbytes], self._waiting[nbytes:]
        self._due_s += BLOCK_MS / 1000
        return block + self._silence[len(block) :]

    def left_s(self) -> float:
        """How long until the next block is due."""
        return max(0.0, self._due_s - time.monotonic())

    async def stream(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Give every block to `send`, when it is due, until cancelled."""
        while True:
            await send(self.block())
            await asyncio.sleep(self.left_s())
