"""Clients that interrupt, cancel, truncate, talk nonsense and leave, whenever they like.

Each thing done is a turn. Over the socket every turn waits for the one `response.done` of each
response it has caused, unless it leaves; whatever does not come in time is `hung`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from bench.crowd import SILENCE, SPEECH

SESSION_TURNS = 6
SEEN = 12
"""Events that are told about when something hangs."""
AGAIN_S, AWAY_S = 3.0, 0.05
TONE = (*[SPEECH] * 8, *[SILENCE] * 6)
"""Speech to the scripted ears, and the silence after it."""

SOUND = "response.output_audio.delta"
DETECTION = {"type": "server_vad", "silence_duration_ms": 300}
ODD = base64.b64encode(b"odd").decode()
NONSENSE = (
    "",
    "{",
    "[]",
    '{"type": 7}',
    '{"type": "no.such"}',
    json.dumps({"type": "input_audio_buffer.append", "audio": ODD}),
    json.dumps({"type": "conversation.item.delete", "item_id": "no_such_item"}),
    json.dumps({"type": "session.update", "session": {"type": "realtime", "voice": []}}),
    b"\x00\xff",
)


@dataclass(slots=True)
class Tally:
    """What was done, how responses ended, and what went wrong in words."""

    turns: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    hung: list[str] = field(default_factory=list)


class Restless:
    """One client after another. url, http: of the same server; speech: appends of a turn."""

    def __init__(
        self,
        url: str,
        http: httpx.AsyncClient,
        chance: random.Random,
        tally: Tally,
        patience_s: float,
        speech: Sequence[str] = TONE,
    ) -> None:
        self._speech = speech
        self._url = url
        self._http = http
        self._chance = chance
        self._tally = tally
        self._patience_s = patience_s
        self._last = ""
        self._seen: deque[str] = deque(maxlen=SEEN)

    async def come_and_go(self) -> None:
        """A session of some turns, or a request over HTTP."""
        try:
            async with asyncio.timeout(None) as patience:
                if self._chance.random() < 0.2:
                    await self.request(patience)
                else:
                    await self._have_session(patience)
        except TimeoutError:
            self._tally.hung.append(f"{self._last}; last came {', '.join(self._seen)}")
        except (ConnectionClosed, OSError, httpx.HTTPError) as error:
            # While a worker is being replaced the server takes nobody new.
            self._tally.ends[f"turned away: {type(error).__name__}"] += 1
            await asyncio.sleep(AWAY_S)

    async def leave(self, patience: asyncio.Timeout) -> None:
        """A session that is left in the middle of its first reply."""
        async with self._connect() as connection:
            talk = Talk(connection, self._chance, self._tally.ends, self._seen, self._speech)
            await talk.set_up()
            self._begin("leave", patience)
            await talk.leave()

    def _connect(self) -> connect:
        options: dict[str, Any] = {"max_size": None, "compression": None, "ping_interval": None}
        return connect(self._url, **options)

    def _begin(self, act: str, patience: asyncio.Timeout) -> None:
        self._last = act
        self._tally.acts[act] += 1
        self._tally.turns += act != "connect"
        patience.reschedule(asyncio.get_running_loop().time() + self._patience_s)

    # -- over HTTP -------------------------------------------------------------------------------

    async def request(self, patience: asyncio.Timeout) -> None:
        """A streamed answer of either kind, of which some pieces are read."""
        self._begin("http", patience)
        text = f"Say something, {self._chance.random()}."
        speech = {"model": "sori", "voice": "marin", "input": text, "response_format": "pcm"}
        chat = {
            "model": "sori",
            "stream": True,
            "modalities": ["text", "audio"],
            "audio": {"voice": "marin", "format": "pcm16"},
            "messages": [{"role": "user", "content": text}],
        }
        path, body = self._chance.choice(
            [("/v1/audio/speech", speech), ("/v1/chat/completions", chat)]
        )
        pieces = self._chance.choice([0, 1, 2, 4, 1000])
        async with self._http.stream("POST", path, json=body) as response:
            self._tally.ends[f"http {response.status_code}"] += 1
            async for _ in response.aiter_raw():
                pieces -= 1
                if pieces <= 0:
                    return

    # -- over the socket -------------------------------------------------------------------------

    async def _have_session(self, patience: asyncio.Timeout) -> None:
        self._begin("connect", patience)
        async with self._connect() as connection:
            talk = Talk(connection, self._chance, self._tally.ends, self._seen, self._speech)
            await talk.set_up()
            for _ in range(self._chance.randint(1, SESSION_TURNS)):
                (act,) = self._chance.choices(*ACTS)
                self._begin(act.__name__, patience)
                await act(talk)
                if talk.left:
                    return


class Talk:
    """One connection and the responses that are open on it."""

    def __init__(
        self,
        connection: ClientConnection,
        chance: random.Random,
        ends: Counter[str],
        seen: deque[str],
        speech: Sequence[str],
    ) -> None:
        self._speech = speech
        self.left = False
        self._connection = connection
        self._chance = chance
        self._ends = ends
        self._seen = seen
        self._open: set[str] = set()

    async def set_up(self) -> None:
        """Let the server find the ends of turns."""
        audio = {"input": {"turn_detection": DETECTION}}
        await self._send("session.update", session={"type": "realtime", "audio": audio})
        await self._until("session.updated")

    async def finish(self) -> None:
        """Ask and listen to the end."""
        await self._ask()
        await self._settle()

    async def cancel(self) -> None:
        """Ask, and take it back somewhere on the way."""
        await self._ask()
        await self._some_events()
        await self._send("response.cancel")
        await self._settle()

    async def barge_in(self) -> None:
        """Speak while the answer is heard, and be answered."""
        await self._ask()
        await self._until(SOUND, "response.done")
        heard = False
        while not heard:  # what is said while the ears are replaced has to be said again
            for frame in self._speech:
                await self._connection.send(frame)
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    await self._until("input_audio_buffer.committed")
                    heard = True
        await self._until("response.created")
        await self._settle()

    async def truncate(self) -> None:
        """Say how much was heard, while more is on its way."""
        await self._ask()
        event = await self._until(SOUND, "response.done")
        if event["type"] == SOUND:
            heard_ms = self._chance.randint(0, 3000)
            place = {"item_id": event["item_id"], "content_index": 0}
            await self._send("conversation.item.truncate", **place, audio_end_ms=heard_ms)
        await self._settle()

    async def talk_nonsense(self) -> None:
        """Each of them is answered by one error, and nothing else happens."""
        for frame in self._chance.choices(NONSENSE, k=4):
            await self._connection.send(frame)
            await self._until("error")

    async def leave(self) -> None:
        """Ask, and be gone without a word somewhere on the way."""
        await self._ask()
        await self._some_events()
        self._connection.transport.abort()
        self.left = True

    # --------------------------------------------------------------------------------------------

    async def _ask(self) -> None:
        # No two are the same: what was in a worker for two of its deaths would be refused.
        content = [{"type": "input_text", "text": f"Talk, {self._chance.random()}."}]
        item = {"type": "message", "role": "user", "content": content}
        await self._send("conversation.item.create", item=item)
        await self._send("response.create")
        await self._until("response.created")

    async def _send(self, event_type: str, **fields: Any) -> None:
        await self._connection.send(json.dumps({"type": event_type, **fields}))

    async def _some_events(self) -> None:
        for _ in range(self._chance.choice([0, 0, 1, 2, 4, 8, 16])):
            if self._open:
                await self._next()

    async def _settle(self) -> None:
        while self._open:
            await self._next()

    async def _until(self, *types: str) -> dict[str, Any]:
        while (event := await self._next())["type"] not in types:
            pass
        return event

    async def _next(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(await self._connection.recv())
        self._seen.append(event["type"])
        if event["type"] == "response.created":
            self._open.add(event["response"]["id"])
        elif event["type"] == "response.done":
            self._open.remove(event["response"]["id"])  # a second one would be a KeyError
            self._ends[event["response"]["status"]] += 1
        return event


ACTS: tuple[list[Callable[[Talk], Awaitable[None]]], list[int]] = (
    [Talk.finish, Talk.cancel, Talk.barge_in, Talk.truncate, Talk.talk_nonsense, Talk.leave],
    [3, 4, 2, 2, 1, 3],
)
