"""Start, readiness, signals, crashes: what is there afterwards, and what is not."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from process_tree import processes, shared_names, wait_until, workers_of
from servers import Serve, scripted

from bench.client import Gone, Late, open_client
from bench.server import Server
from pipeline.config import STAGE_NAMES

GONE_S = 2.0
WORKERS = len(STAGE_NAMES)

LONG = "This reply goes on and on. " * 40
TALKING = scripted(thinker={"text": LONG, "token_ms": 20}, talker={"char_ms": 20})


def die(server: Server) -> None:
    """What no process can prepare for."""
    server.process.kill()
    server.process.wait()


def terminate(server: Server) -> None:
    """What a service manager does."""
    assert server.stop() == 0


def press_ctrl_c(server: Server) -> None:
    """The whole process group gets SIGINT."""
    server.interrupt()
    assert server.process.wait(10) in (0, 130)


async def begin_reply(server: Server) -> None:
    """Leave the server in the middle of a reply, with its client gone."""
    async with open_client(server.realtime_url) as client:
        await start_reply(client)


async def start_reply(client: Any) -> None:
    """Ask, and return with the first sound of the answer."""
    content = [{"type": "input_text", "text": "Talk."}]
    item = {"type": "message", "role": "user", "content": content}
    await client.send({"type": "conversation.item.create", "item": item})
    await client.send({"type": "response.create"})
    await client.wait_for("response.output_audio.delta", 30)


def assert_nothing_left(workers: dict[int, str], names: set[str]) -> None:
    """None of these processes, and no new name in shared memory."""
    wait_until(lambda: not set(workers) & set(processes()), GONE_S, "all workers gone")
    assert shared_names() - names == set()


@pytest.mark.parametrize("end", [terminate, press_ctrl_c, die])
async def test_a_server_that_ends_in_mid_reply_leaves_no_process_and_no_shared_memory(
    end: Callable[[Server], None], serve: Serve
) -> None:
    names = shared_names()
    server = serve({"stages": TALKING, "drain_timeout_s": 0})
    workers = workers_of(server.process.pid)
    assert len(workers) == WORKERS
    async with open_client(server.realtime_url) as client:
        await start_reply(client)
        end(server)
        assert_nothing_left(workers, names)


async def test_sigterm_lets_a_reply_finish_and_begins_nothing_new(serve: Serve) -> None:
    short = scripted(thinker={"text": "This takes a while. " * 3, "token_ms": 60})
    server = serve({"stages": short})
    async with open_client(server.realtime_url) as client, open_client(server.realtime_url) as idle:
        await start_reply(client)
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(Gone, match="1012"):
            await idle.wait_for("never")
        status, ready = server.get("/ready")
        assert (status, ready["status"]) == (503, "draining")
        assert server.get("/health")[0] == 200
        with pytest.raises((Gone, Late), match="1013"):
            async with open_client(server.realtime_url):
                pass
        done = (await client.wait_for("response.done", 10)).event["response"]
        assert done["status"] == "completed"
        with pytest.raises(Gone, match="1012"):
            await client.wait_for("never")
    assert server.process.wait(10) == 0


async def test_sigterm_waits_for_every_session_and_request_and_leaves_nothing(
    serve: Serve,
) -> None:
    names = shared_names()
    words = {"text": "This takes a while. " * 3, "token_ms": 60}
    server = serve({"stages": scripted(thinker=words, voicebox={"step_ms": 20})})
    workers = workers_of(server.process.pid)
    speech = {"model": "sori", "voice": "marin", "input": "word " * 200, "response_format": "pcm"}
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(open_client(server.realtime_url)) for _ in range(3)
        ]
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=30))
        request = http.stream("POST", f"{server.url}/v1/audio/speech", json=speech)
        response = await stack.enter_async_context(request)
        blocks = response.aiter_bytes()
        nbytes = len(await anext(blocks))
        for client in clients:
            await start_reply(client)
        server.process.send_signal(signal.SIGTERM)
        for client in clients:
            done = (await client.wait_for("response.done", 10)).event["response"]
            assert done["status"] == "completed"
            assert done["output"][0]["content"][0]["transcript"] == words["text"]
            with pytest.raises(Gone, match="1012"):
                await client.wait_for("never")
        nbytes += sum([len(block) async for block in blocks])
        assert nbytes == len(str(speech["input"])) * 50 * 48  # 50 ms a character, 24 kHz
    assert server.process.wait(10) == 0
    assert_nothing_left(workers, names)


async def test_a_second_sigterm_ends_at_once(serve: Serve) -> None:
    server = serve({"stages": TALKING, "drain_timeout_s": 600})
    async with open_client(server.realtime_url) as client:
        await start_reply(client)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.get("/ready")[0] == 503, 10, "draining")
        assert server.stop() == 0


async def test_a_reply_that_takes_too_long_is_not_waited_for(serve: Serve) -> None:
    server = serve({"stages": TALKING, "drain_timeout_s": 0.3})
    async with open_client(server.realtime_url) as client:
        await start_reply(client)
        assert server.stop() == 0


@pytest.mark.models
async def test_a_killed_server_leaves_no_model_process_either(serve: Serve) -> None:
    names = shared_names()
    server = serve()
    workers = workers_of(server.process.pid)
    assert len(workers) == WORKERS
    async with open_client(server.realtime_url) as client:
        await start_reply(client)
        die(server)
        assert_nothing_left(workers, names)


def test_every_stage_is_a_process_of_its_own(serve: Serve) -> None:
    server = serve({"stages": scripted()})
    workers = workers_of(server.process.pid)
    assert len(workers) == WORKERS
    assert all("worker" in command for command in workers.values()), workers


async def test_a_killed_worker_fails_its_reply_and_is_back_for_the_next(serve: Serve) -> None:
    server = serve({"stages": scripted(thinker={"text": LONG, "token_ms": 20})})
    before = workers_of(server.process.pid)
    async with open_client(server.realtime_url) as client:
        await start_reply(client)
        for victim in before:
            os.kill(victim, signal.SIGKILL)
        done = (await client.wait_for("response.done", 10)).event["response"]
        assert done["status"] == "failed"
        assert done["status_details"]["error"]["code"]
        wait_until(lambda: server.get("/ready")[0] == 200, 20, "ready again")
        turn = await client.ask("Still there?", response={"output_modalities": ["text"]})
    assert turn.reply is not None
    assert turn.reply.status == "completed"
    after = workers_of(server.process.pid)
    assert len(after) == WORKERS
    assert not set(after) & set(before)


async def test_two_servers_on_one_host_do_not_collide(serve: Serve) -> None:
    one = serve({"stages": scripted(thinker={"text": "I am the first."})})
    two = serve({"stages": scripted(thinker={"text": "I am the second."})})
    async with open_client(one.realtime_url) as first, open_client(two.realtime_url) as second:
        replies = [(await client.ask("Who are you?")).reply for client in (first, second)]
    assert [reply.transcript if reply else None for reply in replies] == [
        "I am the first.",
        "I am the second.",
    ]
    assert one.stop() == 0
    assert two.get("/ready")[0] == 200


def test_a_port_in_use_is_named_and_nothing_is_started(serve: Serve) -> None:
    server = serve({"stages": scripted()})
    second = serve({"stages": scripted()}, port=server.port, wait=False)
    assert second.process.wait(20) == 1
    (line,) = second.log().splitlines()
    assert f"127.0.0.1:{server.port} is in use" in line


@pytest.mark.models
def test_ready_says_503_with_the_reason_until_the_models_are_warm(serve: Serve) -> None:
    server = serve(wait=False)
    answers: list[tuple[int, Any]] = []

    def ask() -> bool:
        try:
            answers.append(server.get("/ready"))
        except OSError:
            return False  # not listening yet
        return answers[-1][0] == 200

    wait_until(ask, 120, "ready")
    waiting = [body for status, body in answers if status == 503]
    assert waiting
    assert all(body["reason"] for body in waiting)
    assert server.get("/health") == (200, {"status": "ok"})
    assert re.search(r"sori: ready", server.log())


async def test_shared_memory_is_the_same_after_turns_that_were_heard_and_turns_that_were_not(
    serve: Serve,
) -> None:
    server = serve({"stages": TALKING})
    names = shared_names()
    descriptors = open_descriptors(server)
    for _ in range(10):
        await begin_reply(server)
    async with open_client(server.realtime_url) as client:
        for _ in range(10):
            turn = await client.ask("Briefly!", response={"max_output_tokens": 5})
            assert turn.reply is not None
            assert len(turn.reply.audio) > 0
    assert shared_names() - names == set()
    wait_until(lambda: open_descriptors(server) <= descriptors, 5, "descriptors closed")


def open_descriptors(server: Server) -> int:
    """Open files and sockets of the server process and its workers."""
    leader = server.process.pid
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in [leader, *workers_of(leader)])
