"""One synthesis at a time has to be enough for several listeners."""

from __future__ import annotations

import asyncio

import pytest
from servers import Serve

from bench.client import open_client
from bench.turn import Turn

pytestmark = [pytest.mark.models, pytest.mark.timeout(240)]

SESSIONS = 4
REPLY_S = 20.0
TEXT = (
    "Every morning the old man walked down to the harbour and looked at the boats. "
    "He knew each of them by name, and most of the people who sailed them. "
    "When the weather was good he sat on the wall and waited for the first one to come back. "
    "When it was bad he stayed until the last of them was safe behind the light. "
    "Nobody had ever asked him to do this, and nobody could remember a day without him."
)


async def test_four_sessions_hear_long_replies_at_once_without_a_gap(serve: Serve) -> None:
    thinker = {"kind": "scripted_thinker", "options": {"text": TEXT, "token_ms": 25}}
    server = serve({"max_concurrent_synthesis": 1, "stages": {"thinker": thinker}})

    async def listen(index: int) -> Turn:
        async with open_client(server.realtime_url) as client:
            return await client.ask(f"Tell me a story, {index}.", deadline_s=90)

    async with asyncio.TaskGroup() as tasks:
        listening = [tasks.create_task(listen(index)) for index in range(SESSIONS)]
    for turn in (task.result() for task in listening):
        assert turn.failure is None
        reply = turn.reply
        assert reply is not None
        assert reply.status == "completed"
        assert reply.transcript == TEXT
        assert len(reply.audio) / reply.rate_hz > REPLY_S
        assert reply.gaps == []
