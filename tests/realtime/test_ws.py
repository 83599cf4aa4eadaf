"""The socket on a real port, in this process, with scripted stages: who gets in, and every end."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from official_types import check_official, check_official_beta
from scripted_engine import scripted_stages
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from realtime.app import create_app
from realtime.config import Config
from realtime.service import Service
from realtime.serving import bind, make_server

PATIENCE_S = 20.0
LONG = "This goes on and on and on. " * 200


@dataclass
class Running:
    """A server that is ready."""

    service: Service
    port: int
    connections: set[Any]

    def connect(self, query: str = "", **options: Any) -> connect:
        return connect(f"ws://127.0.0.1:{self.port}/v1/realtime{query}", max_size=None, **options)


@asynccontextmanager
async def serving(config: Config, *, ready: bool = True) -> AsyncIterator[Running]:
    app = create_app(config)
    service: Service = app.state.service
    server = make_server(config, app)
    async with asyncio.timeout(3 * PATIENCE_S):
        with bind(config.host, config.port) as listener:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(server.serve(sockets=[listener]))
                if ready:
                    await service.settled.wait()
                    assert service.why_not_ready() is None, service.failure
                await until(lambda: server.started)
                port = listener.getsockname()[1]
                yield Running(service, port, server.server_state.connections)
                server.should_exit = True


async def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.001)


Check = Callable[[dict[str, Any]], None]


async def receive(client: ClientConnection, check: Check = check_official) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        event: dict[str, Any] = json.loads(await client.recv())
        check(event)
        return event


async def wait_for(
    client: ClientConnection, event_type: str, check: Check = check_official
) -> dict[str, Any]:
    while (event := await receive(client, check))["type"] != event_type:
        pass
    return event


async def closed(client: ClientConnection) -> tuple[int | None, str | None]:
    """Code and reason of the close frame, which comes next."""
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ConnectionClosed):
            await client.recv()
    return client.close_code, client.close_reason


async def ask(client: ClientConnection) -> None:
    content = [{"type": "input_text", "text": "Talk."}]
    item = {"type": "message", "role": "user", "content": content}
    await client.send(json.dumps({"type": "conversation.item.create", "item": item}))
    await client.send(json.dumps({"type": "response.create"}))


async def test_the_session_is_announced_at_once_and_early_events_are_taken(
    scripted: Config,
) -> None:
    update = json.dumps({"type": "session.update", "session": {"type": "realtime"}})
    async with serving(scripted) as server, server.connect("?model=gpt-realtime") as client:
        await client.send(update)
        created, updated = await receive(client), await receive(client)

    assert (created["type"], updated["type"]) == ("session.created", "session.updated")
    assert created["session"]["model"] == "gpt-realtime"


async def test_a_browser_offers_its_key_as_a_subprotocol_and_gets_only_realtime_back(
    scripted: Config,
) -> None:
    offered = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.secret")]
    config = scripted.model_copy(update={"api_keys": ("secret",)})
    async with serving(config) as server:
        async with server.connect(subprotocols=offered) as client:
            assert client.subprotocol == "realtime"
            assert (await receive(client))["type"] == "session.created"


async def test_a_wrong_key_is_told_by_an_event_and_then_closed(scripted: Config) -> None:
    config = scripted.model_copy(update={"api_keys": ("secret",)})
    headers = {"Authorization": "Bearer guess"}
    async with serving(config) as server:
        async with server.connect(additional_headers=headers) as client:
            error = (await receive(client))["error"]
            end = await closed(client)
        metrics = server.service.metrics.render().decode()

    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
    assert end == (3000, "invalid_request_error.invalid_api_key")
    assert 'sori_sessions_refused_total{reason="invalid_api_key"} 1.0' in metrics


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("?model=nobody", "invalid_request_error.invalid_model"),
        ("?intent=translation", "invalid_request_error.invalid_intent"),
        ("?call_id=rtc_1", "invalid_request_error.invalid_call_id"),
    ],
)
async def test_what_this_server_does_not_have_is_refused_by_name(
    scripted: Config, query: str, reason: str
) -> None:
    async with serving(scripted) as server, server.connect(query) as client:
        assert (await receive(client))["type"] == "error"
        assert await closed(client) == (4000, reason)


@pytest.mark.parametrize(
    "offered",
    [
        {"additional_headers": {"OpenAI-Beta": "assistants=v2, realtime=v1"}},
        {"subprotocols": [Subprotocol("realtime"), Subprotocol("openai-beta.realtime-v1")]},
    ],
    ids=["header", "subprotocol"],
)
async def test_the_beta_is_spoken_to_who_asks_for_it(
    scripted: Config, offered: dict[str, Any]
) -> None:
    async with (
        serving(scripted) as server,
        server.connect("?model=gpt-realtime", **offered) as client,
    ):
        created = await receive(client, check_official_beta)
        conversation = await receive(client, check_official_beta)
        await ask(client)
        delta = await wait_for(client, "response.audio.delta", check_official_beta)
        done = await wait_for(client, "response.done", check_official_beta)

    assert created["session"]["modalities"] == ["audio", "text"]
    assert conversation["type"] == "conversation.created"
    assert base64.b64decode(delta["delta"])
    assert done["response"]["conversation_id"] == conversation["conversation"]["id"]
    assert done["response"]["output"][0]["content"][0]["type"] == "audio"


@pytest.mark.parametrize(
    ("sound", "length"),
    [
        ({"type": "audio/pcm", "rate": 24_000}, 4_800),
        ({"type": "audio/pcmu"}, 800),
    ],
)
async def test_a_tenth_of_a_second_may_be_committed(
    scripted: Config, sound: dict[str, Any], length: int
) -> None:
    audio = {"input": {"turn_detection": None, "format": sound}}
    update = {"type": "session.update", "session": {"type": "realtime", "audio": audio}}
    append = {
        "type": "input_audio_buffer.append",
        "audio": base64.b64encode(bytes(length)).decode(),
    }
    async with serving(scripted) as server, server.connect() as client:
        for event in (update, append, {"type": "input_audio_buffer.commit"}):
            await client.send(json.dumps(event))
        kinds = [(await receive(client))["type"] for _ in range(3)]
    assert kinds == ["session.created", "session.updated", "input_audio_buffer.committed"]


@pytest.mark.parametrize("more", ["", "&model=whisper-1"])
async def test_a_transcription_session_writes_down_and_never_answers(
    scripted: Config, more: str
) -> None:
    query = f"?intent=transcription{more}"
    audio = base64.b64encode(b"\x00\x30" * 24_000).decode()
    async with serving(scripted) as server, server.connect(query) as client:
        created = await receive(client)
        update = {"type": "transcription", "audio": {"input": {"turn_detection": None}}}
        await client.send(json.dumps({"type": "session.update", "session": update}))
        updated = await receive(client)
        await client.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        await client.send(json.dumps({"type": "input_audio_buffer.commit"}))
        events = [await receive(client) for _ in range(5)]
        await client.send(json.dumps({"type": "response.create"}))
        refused = await receive(client)
        await client.send(json.dumps({"type": "input_audio_buffer.commit"}))
        await client.send(json.dumps({"type": "input_audio_buffer.clear"}))
        empty, cleared = await receive(client), await receive(client)

    transcription = "conversation.item.input_audio_transcription"
    assert created["session"]["object"] == "realtime.transcription_session"
    assert updated["session"]["audio"]["input"]["turn_detection"] is None
    assert [event["type"] for event in events] == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        f"{transcription}.delta",
        f"{transcription}.completed",
    ]
    assert events[-1]["transcript"] == "Hello there."
    assert refused["error"]["param"] == "type"
    assert empty["error"]["code"] == "input_audio_buffer_commit_empty"
    assert cleared["type"] == "input_audio_buffer.cleared"


async def test_one_session_too_many_is_told_to_come_back(scripted: Config) -> None:
    async with serving(scripted.model_copy(update={"max_sessions": 1})) as server:
        async with server.connect() as first:
            await receive(first)
            async with server.connect() as second:
                error = (await receive(second))["error"]
                assert (error["code"], error["type"]) == ("too_many_sessions", "server_error")
                assert await closed(second) == (1013, "server_error.too_many_sessions")
        await until(lambda: not server.service.sessions)
        async with server.connect() as third:
            assert (await receive(third))["type"] == "session.created"


async def test_before_it_is_ready_a_server_refuses_sessions_with_the_reason(
    scripted: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading = asyncio.Event()

    async def never(*_: object) -> None:
        await loading.wait()

    monkeypatch.setattr("pipeline.engine.Engine.start", never)
    async with serving(scripted, ready=False) as server, server.connect() as client:
        assert "the models are loading" in (await receive(client))["error"]["message"]
        assert await closed(client) == (1013, "server_error.not_ready")


async def test_pages_from_elsewhere_are_refused_before_the_handshake(scripted: Config) -> None:
    async with serving(scripted) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with server.connect(origin=Origin("https://evil.example")):
                raise AssertionError("it was let in")
        own = Origin(f"http://127.0.0.1:{server.port}")
        async with server.connect(origin=own) as client:
            assert (await receive(client))["type"] == "session.created"

    assert refused.value.response.status_code == 403
    assert b"origin_not_allowed" in refused.value.response.body


async def test_bad_frames_are_answered_and_the_session_goes_on(scripted: Config) -> None:
    async with serving(scripted) as server, server.connect() as client:
        await client.send(b"\x00binary")
        await client.send("not json")
        await client.send("[1]")
        await ask(client)
        codes = [(await wait_for(client, "error"))["error"]["code"] for _ in range(3)]
        done = await wait_for(client, "response.done")

    assert codes == ["invalid_event", "invalid_json", "invalid_event"]
    assert done["response"]["status"] == "completed"


PICTURE = "data:image/png;base64,AAAA"


async def test_a_thinker_that_cannot_see_refuses_pictures_by_their_place(
    scripted: Config,
) -> None:
    parts = [{"type": "input_text", "text": "What is that?"}]
    parts += [{"type": "input_image", "image_url": PICTURE}]
    seen = {"type": "message", "role": "user", "content": parts}
    response = {"conversation": "none", "output_modalities": ["text"], "input": [seen]}
    async with serving(scripted) as server, server.connect() as client:
        await client.send(json.dumps({"type": "conversation.item.create", "item": seen}))
        await client.send(json.dumps({"type": "response.create", "response": response}))
        errors = [(await wait_for(client, "error"))["error"] for _ in range(2)]
        await ask(client)
        added = await receive(client)
        done = await wait_for(client, "response.done")
        base_url = f"http://127.0.0.1:{server.port}/v1"
        content: Any = [
            {"type": "text", "text": "What is that?"},
            {"type": "image_url", "image_url": {"url": PICTURE}},
        ]
        async with openai.AsyncOpenAI(base_url=base_url, api_key="x", max_retries=0) as chat:
            for stream in (False, True):
                with pytest.raises(openai.BadRequestError) as refusal:
                    await chat.chat.completions.create(
                        model="sori", messages=[{"role": "user", "content": content}], stream=stream
                    )
                assert refusal.value.param == "messages[0].content[1]"
                assert refusal.value.code == "unsupported_value"
            model: Any = (await chat.models.retrieve("sori")).to_dict()

    assert [error["param"] for error in errors] == [
        "item.content[1]",
        "response.input[0].content[1]",
    ]
    assert {error["code"] for error in errors} == {"unsupported_content_type"}
    # The refused message is in no conversation.
    assert (added["type"], added["previous_item_id"]) == ("conversation.item.added", None)
    assert done["response"]["status"] == "completed"
    assert "image" not in model["capabilities"]["input_modalities"]


async def test_a_frame_over_the_limit_closes_with_1009(scripted: Config) -> None:
    async with serving(scripted.model_copy(update={"ws_max_size": 65536})) as server:
        async with server.connect() as client:
            await receive(client)
            await client.send("x" * 70_000)
            assert (await closed(client))[0] == 1009


async def test_a_text_frame_that_is_no_text_closes_with_1007_and_leaves_no_traceback(
    scripted: Config, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(scripted) as server, server.connect() as client:
        await receive(client)
        await client.send(b"\xff", text=True)
        assert (await closed(client))[0] == 1007
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_session_ends_at_its_age_with_the_reason(scripted: Config) -> None:
    config = scripted.model_copy(update={"max_session_s": 0.2})
    async with serving(config) as server, server.connect() as client:
        await receive(client)
        error = (await receive(client))["error"]
        code, reason = await closed(client)

    assert error["code"] == "session_expired"
    assert (code, reason) == (1001, "Your session hit the maximum duration of 0.2 seconds.")


async def test_a_client_that_sends_nothing_is_closed(scripted: Config) -> None:
    config = scripted.model_copy(update={"idle_timeout_s": 0.2})
    async with serving(config) as server, server.connect() as client:
        await receive(client)
        assert (await receive(client))["error"]["code"] == "session_idle"
        assert (await closed(client))[0] == 1001


async def test_a_disconnect_stops_all_work_of_the_session(scripted: Config) -> None:
    stages = scripted_stages(thinker={"text": LONG, "token_ms": 5})
    async with serving(scripted.model_copy(update={"stages": stages})) as server:
        async with server.connect() as client:
            await ask(client)
            await wait_for(client, "response.output_audio.delta")
            client.transport.abort()
        stats = server.service.engine.stats
        await until(
            lambda: not (server.service.sessions or stats().requests or stats().listeners),
            patience_s=1.0,
        )


async def test_a_client_that_does_not_read_is_dropped_with_its_session(
    scripted: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("realtime.serving.CLOSE_GRACE_S", 0.1)
    stages = scripted_stages(thinker={"text": LONG})
    limits = {"stages": stages, "max_outgoing_bytes": 65536, "pacing_lead_ms": 3000}
    async with serving(scripted.model_copy(update=limits)) as server:
        peer = await stalled_client(server.port)
        with peer:
            # The kernel takes some megabytes before the server notices anything.
            loop = asyncio.get_running_loop()
            while server.service.sessions:
                create = {"type": "response.create", "response": {"output_modalities": ["text"]}}
                await loop.sock_sendall(peer, text_frame(json.dumps(create)))
            # Flushing to such a peer would keep its connection for ever.
            await until(lambda: not server.connections)
        assert server.service.engine.stats().requests == 0


async def stalled_client(port: int) -> socket.socket:
    """A client that shakes hands, and never reads again."""
    loop = asyncio.get_running_loop()
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.setblocking(False)
    await loop.sock_connect(peer, ("127.0.0.1", port))
    request = (
        f"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    await loop.sock_sendall(peer, request.encode())
    assert (await loop.sock_recv(peer, 12)) == b"HTTP/1.1 101"
    return peer


def text_frame(text: str) -> bytes:
    """A masked frame, with a mask that changes nothing."""
    assert len(text) < 126
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text.encode()
