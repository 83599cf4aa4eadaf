"""Many clients at once from one process, cheap enough not to be what is measured.

Each sends silence in frames made beforehand, and is answered in turns: it commits, or it speaks and
leaves the end of the turn to the server. Of what arrives only the type is read.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect

RATE_HZ = 24_000
APPEND_MS = 100
SPEECH_APPENDS = 8
DELTA = '"response.output_audio.delta"'
HEAD_CHARS = 160
"""The type is the first key of every event, and the delta is the last."""

COMMIT = json.dumps({"type": "input_audio_buffer.commit"})
CREATE = json.dumps({"type": "response.create"})


def append_frame(level: int) -> str:
    """An append of a 240 Hz square wave of this level; 0 is silence."""
    period = np.repeat([level, -level], 50)
    return append_of(np.tile(period, RATE_HZ * APPEND_MS // 1000 // len(period)))


def append_of(samples: NDArray[Any]) -> str:
    """An append of these samples, at 24 kHz."""
    audio = base64.b64encode(samples.astype("<i2").tobytes()).decode()
    return json.dumps({"type": "input_audio_buffer.append", "audio": audio})


SILENCE, SPEECH = append_frame(0), append_frame(8000)


@dataclass(slots=True)
class Answers:
    """What the crowd saw. first_audio_ms: from the end of each turn. late_ms: audio too late."""

    first_audio_ms: list[float] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)
    deltas: int = 0
    appends: int = 0
    turns: int = 0
    unanswered: int = 0
    errors: list[str] = field(default_factory=list)


class Member:
    """One client. detects: the server finds the end of its turns."""

    def __init__(self, connection: ClientConnection, answers: Answers, *, detects: bool) -> None:
        self._connection = connection
        self._answers = answers
        self._detects = detects
        self._ended_s: float | None = None  # the turn that is not answered yet
        self._sent_s = 0.0
        self._played_s = 0.0  # when all audio so far will have been played
        self._replying = False

    async def set_up(self) -> None:
        """Configure the session, and wait until that is answered."""
        detection = {"type": "server_vad", "silence_duration_ms": 300} if self._detects else None
        audio = {"input": {"turn_detection": detection}}
        session = {"type": "realtime", "audio": audio}
        await self._connection.send(json.dumps({"type": "session.update", "session": session}))
        while "session.updated" not in str(await self._connection.recv())[:HEAD_CHARS]:
            pass

    async def talk(self, offset_s: float, every_s: float, until_s: float) -> None:
        """Append without pause, with a turn at the offset and then every so often."""
        begin_s = time.monotonic() + offset_s
        appends, every, speaking = 0, round(every_s * 1000 / APPEND_MS), 0
        while (now_s := time.monotonic()) < until_s:
            await asyncio.sleep(max(0.0, begin_s + appends * APPEND_MS / 1000 - now_s))
            turn = appends % every == 0 and time.monotonic() < until_s - every_s
            appends += 1
            if turn and self._detects:
                speaking = SPEECH_APPENDS
            await self._connection.send(SPEECH if speaking else SILENCE)
            self._sent_s = time.monotonic()
            self._answers.appends += 1
            speaking = max(0, speaking - 1)
            if turn:
                self._answers.turns += 1
                if not self._detects:
                    await self._connection.send(COMMIT)
                    self._end_turn()
                    await self._connection.send(CREATE)

    def _end_turn(self) -> None:
        if self._ended_s is not None:
            self._answers.unanswered += 1
        self._ended_s = time.monotonic()
        self._replying = False

    async def listen(self) -> None:
        """Note what arrives, until cancelled."""
        async for frame in self._connection:
            head = str(frame[:HEAD_CHARS])
            if DELTA in head:
                self._hear(len(frame))
            elif '"input_audio_buffer.committed"' in head and self._detects:
                self._ended_s, self._replying = self._sent_s, False
            elif '"error"' in head:
                self._answers.errors.append(str(frame)[:300])

    def _hear(self, chars: int) -> None:
        now_s = time.monotonic()
        self._answers.deltas += 1
        if self._ended_s is not None:
            self._answers.first_audio_ms.append((now_s - self._ended_s) * 1000)
            self._ended_s, self._replying, self._played_s = None, True, now_s
        elif self._replying and now_s > self._played_s:
            self._answers.late_ms.append((now_s - self._played_s) * 1000)
            self._played_s = now_s
        self._played_s += (chars - HEAD_CHARS) * 3 / 4 / 2 / RATE_HZ


async def run_crowd(
    url: str, sessions: int, seconds: float, *, detects: bool, every_s: float = 4.0
) -> Answers:
    """So many clients for so long, each with its first turn at another moment.

    url: of the socket. detects: see `Member`. Raises OSError, or what a connection ends with.
    """
    answers = Answers()
    options: dict[str, Any] = {"max_size": None, "compression": None, "ping_interval": None}
    connections = [await connect(url, **options) for _ in range(sessions)]
    members = [Member(connection, answers, detects=detects) for connection in connections]
    try:
        for member in members:
            await member.set_up()
        until_s = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            listening = [tasks.create_task(member.listen()) for member in members]
            async with asyncio.TaskGroup() as talking:
                for number, member in enumerate(members):
                    offset_s = every_s * number / sessions
                    talking.create_task(member.talk(offset_s, every_s, until_s))
            await asyncio.sleep(every_s / 2)  # for what is still being said
            for task in listening:
                task.cancel()
    finally:
        for connection in connections:
            connection.transport.abort()
    return answers
