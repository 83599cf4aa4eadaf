"""A server of canned behaviour on a real socket, to see what the benchmarks make of it.

It hears a turn when loud audio is followed by silence, and answers with a tone.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from bench.wire import WIRES, Wire

LOUD = 500
SILENT_APPENDS = 10
PIECE_MS = 100


@dataclass
class Behaviour:
    """What the double does. Times in seconds; pieces are 100 ms of audio each."""

    pieces: int = 3
    wait_s: float = 0.0
    gap_before_last_s: float = 0.0
    lead_in_ms: int = 0
    text: str = "Hello there. How are you?"
    status: str = "completed"
    silent: bool = False
    mute: bool = False
    close_on_speech: bool = False
    timings_ms: dict[str, int] = field(default_factory=lambda: {"first_text": 5, "first_audio": 9})
    heard: list[np.ndarray[Any, np.dtype[np.int16]]] = field(default_factory=list)
    appends: list[int] = field(default_factory=list)
    sessions: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def realtime_double(behaviour: Behaviour | None = None) -> Iterator[str]:
    """Serve in a thread; gives the URL of the socket."""
    behaviour = behaviour or Behaviour()
    with serve(lambda socket: _Session(socket, behaviour).run(), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.socket.getsockname()[1]
        try:
            yield f"ws://127.0.0.1:{port}/v1/realtime"
        finally:
            server.shutdown()
            thread.join()


class _Session:
    def __init__(self, socket: ServerConnection, behaviour: Behaviour) -> None:
        self._socket = socket
        self._behaviour = behaviour
        self._wire: Wire = WIRES["pcm"]()
        self._quiet = 0
        self._speaking = False
        self._turns = 0

    def run(self) -> None:
        try:
            self._send("session.created", session={})
            for frame in self._socket:
                self._receive(json.loads(frame))
        except ConnectionClosed:
            pass

    def _receive(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "session.update":
                self._behaviour.sessions.append(event["session"])
                kind = event["session"]["audio"]["input"]["format"]["type"]
                name = {"audio/pcm": "pcm", "audio/pcmu": "pcmu", "audio/opus": "opus"}[kind]
                self._wire = WIRES[name]()
                self._send("session.updated", session=event["session"])
            case "input_audio_buffer.append":
                self._hear(base64.b64decode(event["audio"]))
            case "conversation.item.create":
                self._send("conversation.item.done", item=event["item"])
            case "response.create":
                self._reply()

    def _hear(self, payload: bytes) -> None:
        samples = self._wire.decode(payload)
        self._behaviour.heard.append(samples)
        self._behaviour.appends.append(len(payload))
        if np.abs(samples.astype(np.int32)).max() > LOUD:
            self._quiet = 0
            if not self._speaking:
                self._speaking = True
                self._send("input_audio_buffer.speech_started", item_id="item_u")
            return
        self._quiet += 1
        if self._speaking and self._quiet == SILENT_APPENDS:
            self._speaking = False
            self._end_turn()

    def _end_turn(self) -> None:
        if self._behaviour.close_on_speech:
            self._socket.close(1011, "server_error")
            return
        self._turns += 1
        item_id = f"item_{self._turns}"
        self._send("input_audio_buffer.speech_stopped", item_id=item_id)
        self._send("input_audio_buffer.committed", item_id=item_id)
        self._send(
            "conversation.item.input_audio_transcription.completed",
            item_id=item_id,
            transcript="what I heard",
        )
        if not self._behaviour.silent:
            self._reply()

    def _reply(self) -> None:
        behaviour = self._behaviour
        response_id = f"resp_{id(self)}_{self._turns}"
        self._send("response.created", response={"id": response_id})
        time.sleep(behaviour.wait_s)
        self._send(
            "response.output_audio_transcript.delta",
            response_id=response_id,
            delta=behaviour.text,
        )
        for index in range(behaviour.pieces):
            if index == behaviour.pieces - 1:
                time.sleep(behaviour.gap_before_last_s)
            self._send_audio(response_id, index)
        details = {"error": {"code": "worker_died", "message": "The thinker died."}}
        self._send(
            "response.done",
            response={
                "id": response_id,
                "status": behaviour.status,
                "status_details": details if behaviour.status == "failed" else None,
                "sori": {"timings_ms": behaviour.timings_ms},
            },
        )

    def _send_audio(self, response_id: str, index: int) -> None:
        rate_hz = self._wire.send_rate_hz
        at = np.arange(rate_hz * PIECE_MS // 1000) + index * rate_hz * PIECE_MS // 1000
        tone = 0.0 if self._behaviour.mute else 0.25 * np.sin(2 * np.pi * 440 * at / rate_hz)
        tone = np.where(at < self._behaviour.lead_in_ms * rate_hz // 1000, 0.0, tone)
        samples = np.round(tone * 32767).astype(np.int16)
        step = rate_hz * 20 // 1000
        for first in range(0, len(samples), step):
            payload = self._wire.encode(samples[first : first + step])
            delta = base64.b64encode(payload).decode()
            self._send("response.output_audio.delta", response_id=response_id, delta=delta)

    def _send(self, event_type: str, **fields: Any) -> None:
        self._socket.send(json.dumps({"type": event_type, "event_id": "event_1", **fields}))
