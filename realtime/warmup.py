"""The first turns, had by the server with itself before anybody else: through the real application.

Models are slowest the first time, and so is every path of the code. A socket without a network is
opened to the app, and a spoken turn is had with each latency plan and each output codec.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.types import ASGIApp, Message

from audio.formats import OPUS, PCM
from realtime.ws import INTERNAL_SCOPE_KEY, PATH

if TYPE_CHECKING:
    from realtime.service import Service

logger = logging.getLogger(__name__)

TIMEOUT_S = 120.0
RATE_HZ = 24_000
APPEND_SAMPLES = RATE_HZ // 10
MAX_OUTPUT_TOKENS = 8
"""A first chunk, steady ones and a last one, and all of it within the pacing lead."""


class WarmUpFailed(Exception):
    """The server cannot answer even itself. The message says what it got."""


class InnerSocket:
    """A WebSocket to an ASGI app in the same process."""

    def __init__(self, app: ASGIApp, scope: Mapping[str, Any]) -> None:
        self._app = app
        self._scope = scope
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()

    async def __aenter__(self) -> InnerSocket:
        self._to_app.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.create_task(self._run())
        return self

    async def _run(self) -> None:
        await self._app(dict(self._scope), self._to_app.get, self._from_app.put)

    async def __aexit__(self, *exc_info: object) -> None:
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1000})
        with suppress(asyncio.CancelledError):
            await self._task

    def send(self, event_type: str, **fields: Any) -> None:
        """Send one event."""
        text = json.dumps({"type": event_type, **fields})
        self._to_app.put_nowait({"type": "websocket.receive", "text": text})

    async def wait_for(self, *event_types: str) -> dict[str, Any]:
        """The next event of one of these types; others pass. Raises WarmUpFailed."""
        while True:
            message = await self._from_app.get()
            if message["type"] == "websocket.close":
                raise WarmUpFailed(f"the warm-up was closed: {message.get('reason')}")
            event: dict[str, Any] = json.loads(message.get("text") or "{}")
            if event.get("type") == "error":
                raise WarmUpFailed(f"the warm-up was refused: {event['error']['message']}")
            if event.get("type") in event_types:
                return event


async def warm_up(app: ASGIApp, service: Service) -> None:
    """Have all the turns. Raises WarmUpFailed, TimeoutError."""
    scope: dict[str, Any] = {
        "type": "websocket",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "scheme": "ws",
        "path": PATH,
        "raw_path": PATH.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [],
        "subprotocols": [],
        "client": None,
        "server": None,
        INTERNAL_SCOPE_KEY: service,
    }
    async with asyncio.timeout(TIMEOUT_S), InnerSocket(app, scope) as socket:
        await socket.wait_for("session.created")
        hear(socket)
        for latency_first in (True, False):
            for name in (PCM, OPUS):
                await turn(socket, name, latency_first=latency_first)


def hear(socket: InnerSocket) -> None:
    """Let the ears listen to noise, which is no speech."""
    rng = np.random.default_rng(0)
    append(socket, (rng.standard_normal(RATE_HZ // 2) * 100).astype(np.int16))


async def turn(socket: InnerSocket, output_format: str, *, latency_first: bool) -> None:
    """Speak, be transcribed, and take the reply."""
    audio = {
        "input": {"turn_detection": None, "transcription": {"model": "whisper-1"}},
        "output": {"format": {"type": output_format}},
    }
    session = {"type": "realtime", "audio": audio, "latency_first": latency_first}
    socket.send("session.update", session={**session, "max_output_tokens": MAX_OUTPUT_TOKENS})
    await socket.wait_for("session.updated")
    append(socket, murmur())
    socket.send("input_audio_buffer.commit")
    transcribed = "conversation.item.input_audio_transcription."
    heard = await socket.wait_for(transcribed + "completed", transcribed + "failed")
    if heard["type"].endswith("failed"):
        raise WarmUpFailed(f"the transcriber failed: {heard['error']['message']}")
    part = {"type": "input_text", "text": "Please say something nice, in one sentence."}
    item = {"type": "message", "role": "user", "content": [part]}
    socket.send("conversation.item.create", item=item)
    socket.send("response.create")
    response = (await socket.wait_for("response.done"))["response"]
    if response["status"] not in {"completed", "incomplete"}:
        raise WarmUpFailed(f"a reply {response['status']}: {response['status_details']}")


def murmur() -> np.ndarray[Any, np.dtype[np.int16]]:
    """A second of something voiced, with the harmonics and the rhythm of a syllable."""
    t = np.arange(RATE_HZ) / RATE_HZ
    voice = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 20))
    return np.asarray(voice * np.abs(np.sin(2 * np.pi * 3 * t)) * 3000).astype(np.int16)


def append(socket: InnerSocket, samples: np.ndarray[Any, np.dtype[np.int16]]) -> None:
    """Send samples as a microphone would, in pieces."""
    for first in range(0, len(samples), APPEND_SAMPLES):
        piece = samples[first : first + APPEND_SAMPLES].tobytes()
        socket.send("input_audio_buffer.append", audio=base64.b64encode(piece).decode())
