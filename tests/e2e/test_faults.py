"""Workers that die, stop and stumble in the middle of replies: who notices, and for how long."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from process_tree import wait_until, worker_of
from servers import Serve, scripted

from bench.client import Gone, Late, RealtimeClient, open_client
from bench.crowd import COMMIT, CREATE, SILENCE, SPEECH
from bench.scrape import scrape
from bench.server import Server, start_server
from pipeline.config import STAGE_NAMES

HEARTBEAT_S = 1.0
BEAT_S = HEARTBEAT_S / 5
TOLD_S = 1.0
"""From the moment the server can know of it to the end of the reply."""
BACK_S = 10.0

WORDS = 100
CHAR_MS = 20
LONG = " ".join(["word"] * WORDS)
READ_ALOUD = "word " * 200
STAGES = scripted(
    thinker={
        "text": LONG,
        "token_ms": 20,
        "texts": {"Briefly": "Here I am."},
        "faults": {"poison": "raise"},
    },
    transcriber={"delay_ms": 1000},
    talker={"char_ms": CHAR_MS},
    voicebox={"step_ms": 20},
)
SILENT = {"output_modalities": ["text"]}
BY_HAND = {"audio": {"input": {"turn_detection": None}}}
SOUND = "response.output_audio.delta"
DONE = "response.done"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One for all of them: a worker that has come back is as good as any."""
    with start_server({"stages": STAGES, "heartbeat_timeout_s": HEARTBEAT_S}) as started:
        yield started


async def say(client: RealtimeClient, text: str, **response: Any) -> None:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    await client.send({"type": "conversation.item.create", "item": item})
    await client.send({"type": "response.create", "response": response})


async def speak(client: RealtimeClient) -> None:
    """Eight tenths of a second of sound."""
    for _ in range(8):
        await client.send_text(SPEECH)


async def use(client: RealtimeClient, stage: str, text: str) -> None:
    """Leave a reply in the middle of its work at this stage."""
    if stage == "transcriber":
        await client.update_session(BY_HAND)
        await speak(client)
        await client.send_text(COMMIT)
        await client.send_text(CREATE)
        await client.wait_for("response.created")
    else:
        await say(client, text)
        await client.wait_for(SOUND)


async def read_aloud(server: Server, begun: asyncio.Event) -> int:
    """Bytes of a speech over REST, which needs no Thinker."""
    body = {"model": "sori", "voice": "marin", "input": READ_ALOUD, "response_format": "pcm"}
    nbytes = 0
    async with (
        httpx.AsyncClient(timeout=30) as http,
        http.stream("POST", f"{server.url}/v1/audio/speech", json=body) as response,
    ):
        async for block in response.aiter_bytes():
            nbytes += len(block)
            begun.set()
    return nbytes


async def write(server: Server, text: str, begun: asyncio.Event) -> str:
    """The words of a reply that has no sound."""
    async with open_client(server.realtime_url) as client:
        await say(client, text, **SILENT)
        await client.wait_for("response.output_text.delta")
        begun.set()
        done = (await client.wait_for(DONE, 30)).event["response"]
    assert done["status"] == "completed", done
    return str(done["output"][0]["content"][0]["text"])


async def ready_again(server: Server, stage: str, restarts: float) -> None:
    def back() -> bool:
        return (
            scrape(server)[f"sori_worker_restarts_total{{'stage': '{stage}'}}"] > restarts
            and server.get("/ready")[0] == 200
        )

    await asyncio.to_thread(wait_until, back, BACK_S, f"{stage} back")


def restarts_of(server: Server, stage: str) -> float:
    return scrape(server)[f"sori_worker_restarts_total{{'stage': '{stage}'}}"]


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize(
    "stage", [one for one in STAGE_NAMES if one not in ("ears", "turn_detector")]
)
async def test_replies_in_a_lost_worker_fail_and_no_others(
    server: Server, stage: str, fate: signal.Signals
) -> None:
    detection_s = HEARTBEAT_S + BEAT_S if fate is signal.SIGSTOP else 0
    restarts = restarts_of(server, stage)
    begun = asyncio.Event()
    async with asyncio.TaskGroup() as tasks, open_client(server.realtime_url) as client:
        bystander: asyncio.Task[Any] = tasks.create_task(
            read_aloud(server, begun)
            if stage == "thinker"
            else write(server, f"{stage} {fate}, beside it", begun)
        )
        await begun.wait()
        await use(client, stage, f"{stage} {fate}")
        os.kill(worker_of(server.process.pid, stage), fate)
        done = (await client.wait_for(DONE, detection_s + TOLD_S)).event["response"]
        assert done["status"] == "failed"
        assert done["status_details"]["error"]["code"]
        status, body = server.get("/ready")
        assert status == 503
        assert stage in body["reason"]
        await ready_again(server, stage, restarts)
        turn = await client.ask("Briefly.", deadline_s=20)
        assert turn.reply is not None
        assert turn.reply.transcript == "Here I am."
        assert sum(one.type == DONE for one in client.events) == 2
    whole = len(READ_ALOUD) * CHAR_MS * 48 if stage == "thinker" else LONG
    assert bystander.result() == whole


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("stage", ["ears", "turn_detector"])
async def test_replies_outlive_the_loss_of_who_listens(
    server: Server, stage: str, fate: signal.Signals
) -> None:
    restarts = restarts_of(server, stage)
    async with open_client(server.realtime_url) as client:
        await use(client, stage, f"{stage} {fate}")
        os.kill(worker_of(server.process.pid, stage), fate)
        await ready_again(server, stage, restarts)
        since = len(client.events)
        await client.wait_for(SOUND, since=since)
        await client.send({"type": "response.cancel"})
        done = (await client.wait_for(DONE)).event["response"]
        assert done["status"] == "cancelled"
        since = len(client.events)
        await speak(client)
        for _ in range(30):
            await client.send_text(SILENCE)
        await client.wait_for(SOUND, since=since)
        assert not [one.event for one in client.events if one.type == "error"]


async def test_a_request_that_a_stage_cannot_do_fails_alone(server: Server) -> None:
    restarts = restarts_of(server, "thinker")
    begun = asyncio.Event()
    async with asyncio.TaskGroup() as tasks, open_client(server.realtime_url) as client:
        beside = tasks.create_task(write(server, "beside what fails", begun))
        await begun.wait()
        poisoned = await client.ask("poison")
        assert poisoned.reply is not None
        assert poisoned.reply.status == "failed"
        assert "scripted_fault" in str(poisoned.reply.failure)
        await client.send({"type": "conversation.item.delete", "item_id": items_of(client)[0]})
        turn = await client.ask("Briefly.")
        assert turn.reply is not None
        assert turn.reply.transcript == "Here I am."
    assert beside.result() == LONG
    assert restarts_of(server, "thinker") == restarts
    assert server.get("/ready")[0] == 200


def items_of(client: RealtimeClient) -> list[str]:
    return [
        one.event["item"]["id"] for one in client.events if one.type == "conversation.item.added"
    ]


async def test_a_request_that_memory_is_too_small_for_fails_alone(serve: Serve) -> None:
    server = serve({"stages": scripted(thinker={"faults": {"poison": "exhaust"}})})
    async with (
        open_client(server.realtime_url) as client,
        open_client(server.realtime_url) as other,
    ):
        exhausted = await client.ask("poison")
        assert exhausted.reply is not None
        assert "thinker_error: MemoryError: no room for 1 GiB" in str(exhausted.reply.failure)
        turn = await other.ask("Briefly.")
        assert turn.reply is not None
        assert turn.reply.status == "completed"
    assert restarts_of(server, "thinker") == 0


async def test_a_model_that_cannot_be_loaded_again_is_told_and_tried_for(
    serve: Serve, tmp_path: Path
) -> None:
    weights = tmp_path / "weights"
    weights.touch()
    server = serve({"stages": scripted(thinker={"needs": str(weights)})})
    weights.unlink()
    os.kill(worker_of(server.process.pid, "thinker"), signal.SIGKILL)

    def told() -> bool:
        status, body = server.get("/ready")
        return status == 503 and "thinker is down: could not load: FileNotFound" in body["reason"]

    await asyncio.to_thread(wait_until, told, BACK_S, "the reason in /ready")
    seen = scrape(server)
    assert seen["sori_ready"] == 0
    assert seen["sori_worker_ready{'stage': 'thinker'}"] == 0
    assert seen["sori_worker_ready{'stage': 'talker'}"] == 1
    with pytest.raises((Gone, Late), match="1013"):
        async with open_client(server.realtime_url):
            pass
    weights.touch()
    await ready_again(server, "thinker", 1)
    async with open_client(server.realtime_url) as client:
        turn = await client.ask("Briefly.")
    assert turn.reply is not None
    assert turn.reply.status == "completed"


async def test_replies_that_would_wait_too_long_for_the_voice_fail_and_say_so(
    serve: Serve,
) -> None:
    limits = {"max_concurrent_synthesis": 1, "max_queued_synthesis": 2, "synthesis_timeout_s": 1}
    stages = scripted(thinker={"text": "Hello."}, voicebox={"step_ms": 1200})
    server = serve({**limits, "stages": stages})

    async def ask() -> str:
        async with open_client(server.realtime_url) as client:
            turn = await client.ask("Say something.")
        assert turn.reply is not None, turn.failure
        return str(turn.reply.failure)

    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(ask()) for _ in range(6)]
    told = " ".join(task.result() for task in asking)
    assert "synthesis_queue_full: too many replies wait for the voice" in told
    assert "synthesis_timeout: the voice was not free for 1 s" in told
    assert await ask() == "None"
    assert scrape(server)["sori_synthesis_waiting"] == 0


@pytest.mark.models
@pytest.mark.timeout(300)
async def test_models_that_are_killed_in_mid_reply_are_back_for_the_next_turn(
    serve: Serve,
) -> None:
    server = serve()
    for stage in STAGE_NAMES:
        async with open_client(server.realtime_url) as client:
            await say(client, f"Name a fruit, {stage}.", max_output_tokens=20)
            await client.wait_for("response.created")  # it may be a short one
            os.kill(worker_of(server.process.pid, stage), signal.SIGKILL)
            await ready_again(server, stage, 0)
            done = (await client.wait_for(DONE, 60)).event["response"]
            needed = stage in ("thinker", "talker", "voicebox")
            assert (done["status"] == "failed") is needed, done
        async with open_client(server.realtime_url) as client:
            turn = await client.ask("Say hello.", response={"max_output_tokens": 12})
            assert turn.reply is not None
            assert len(turn.reply.audio) > 0


@pytest.mark.models
@pytest.mark.timeout(240)
async def test_a_healthy_worker_under_full_load_is_never_killed(serve: Serve) -> None:
    server = serve({"heartbeat_timeout_s": HEARTBEAT_S, "step_timeout_s": 10})
    chat = {
        "model": "sori",
        "messages": [{"role": "user", "content": "Tell me a long story of a harbour."}],
        "max_completion_tokens": 120,
    }
    speech = {
        "model": "sori",
        "voice": "marin",
        "input": "A long sentence about nothing at all. " * 12,
    }
    async with (
        httpx.AsyncClient(base_url=server.url, timeout=180) as http,
        asyncio.TaskGroup() as tasks,
    ):
        answers = [
            tasks.create_task(http.post(path, json=body))
            for path, body in [("/v1/chat/completions", chat), ("/v1/audio/speech", speech)] * 5
        ]
    assert [answer.result().status_code for answer in answers] == [200] * len(answers)
    assert [restarts_of(server, stage) for stage in STAGE_NAMES] == [0] * len(STAGE_NAMES)
