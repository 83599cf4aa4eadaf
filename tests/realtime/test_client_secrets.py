"""Client secrets: what they carry, that they cannot be made by others, and that they end."""

from __future__ import annotations

import json
import time
from secrets import token_hex
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI
from test_ws import closed, receive, serving
from websockets.asyncio.client import ClientConnection
from websockets.typing import Subprotocol

from realtime.client_secrets import ClientSecret, ClientSecrets, SecretTooLong
from realtime.config import Config

SESSION = {"type": "realtime", "instructions": "Speak like a pirate."}


def test_a_secret_carries_its_session_until_it_expires() -> None:
    secret = ClientSecret(1000, SESSION)
    value = ClientSecrets("a configured key").issue(secret)
    elsewhere = ClientSecrets("a configured key")
    assert value.startswith("ek_")
    assert elsewhere.read(value, 999.0) == secret
    assert elsewhere.read(value, 1000.0) is None


def test_a_secret_of_another_key_or_with_anything_changed_is_none() -> None:
    secrets = ClientSecrets()
    value = secrets.issue(ClientSecret(1000, SESSION))
    assert ClientSecrets().read(value, 0.0) is None
    for place in range(len(value)):
        changed = value[:place] + ("A" if value[place] != "A" else "B") + value[place + 1 :]
        # The last character has bits that mean nothing, and even those are compared.
        assert secrets.read(changed, 0.0) is None
    for wrong in ("", "ek_", "ek_.", ".", "ek_é.é", value + "."):
        assert secrets.read(wrong, 0.0) is None


def test_a_session_too_long_for_a_header_is_refused() -> None:
    noise = token_hex(40_000)
    with pytest.raises(SecretTooLong):
        ClientSecrets().issue(ClientSecret(1000, {"instructions": noise}))


@pytest.fixture
def keyed(scripted: Config) -> Config:
    return scripted.model_copy(update={"api_keys": ("secret",)})


async def post(port: int, path: str, body: dict[str, Any], key: str = "secret") -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/v1/realtime") as http:
        return await http.post(path, json=body, headers=headers)


async def opened(client: ClientConnection) -> dict[str, Any]:
    session: dict[str, Any] = (await receive(client))["session"]
    return session


async def test_a_browser_opens_the_session_that_its_secret_carries(keyed: Config) -> None:
    session = {**SESSION, "model": "gpt-realtime", "audio": {"input": {"turn_detection": None}}}
    async with serving(keyed) as server:
        made = await post(server.port, "/client_secrets", {"session": session})
        value = made.json()["value"]
        browser = [Subprotocol("realtime"), Subprotocol(f"openai-insecure-api-key.{value}")]
        async with server.connect(subprotocols=browser) as client:
            seen = await opened(client)
            assert client.subprotocol == "realtime"
        bearer = {"Authorization": f"Bearer {value}"}
        async with server.connect("?model=gpt-other", additional_headers=bearer) as client:
            again = await opened(client)
        used_as_key = await post(server.port, "/client_secrets", {}, key=value)

    assert made.json()["session"]["instructions"] == SESSION["instructions"]
    assert 590 < made.json()["expires_at"] - time.time() <= 600
    assert (seen["model"], again["model"]) == ("gpt-realtime", "gpt-other")
    for one in (seen, again):
        assert one["instructions"] == SESSION["instructions"]
        assert one["audio"]["input"]["turn_detection"] is None
    assert used_as_key.status_code == 401


async def test_the_official_client_makes_a_secret_and_connects_with_it(keyed: Config) -> None:
    async with serving(keyed) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        async with AsyncOpenAI(base_url=url, api_key="secret") as backend:
            made = await backend.realtime.client_secrets.create(
                expires_after={"anchor": "created_at", "seconds": 30},
                session={"type": "realtime", "instructions": "Speak like a pirate."},
            )
        async with (
            AsyncOpenAI(base_url=url, api_key=made.value) as frontend,
            frontend.realtime.connect(model="gpt-realtime") as connection,
        ):
            created = await connection.recv()

    assert created.type == "session.created"
    assert created.session.type == made.session.type == "realtime"
    assert created.session.instructions == "Speak like a pirate."


async def test_a_page_that_is_allowed_may_ask_and_no_other(keyed: Config) -> None:
    config = keyed.model_copy(update={"allowed_origins": ("https://app.example",)})
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type, x-openai-agents-sdk",
    }
    async with serving(config) as server:
        url = f"http://127.0.0.1:{server.port}/v1/realtime/client_secrets"
        async with httpx.AsyncClient() as http:
            ours = {**asked, "Origin": "https://app.example"}
            allowed = await http.options(url, headers=ours)
            refused = await http.options(url, headers={**asked, "Origin": "https://evil.example"})

    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert "x-openai-agents-sdk" in allowed.headers["access-control-allow-headers"]
    assert refused.status_code == 403


async def test_a_secret_that_is_none_opens_nothing_even_on_a_server_without_keys(
    scripted: Config,
) -> None:
    headers = {"Authorization": f"Bearer {ClientSecrets().issue(ClientSecret(10**10, SESSION))}"}
    async with serving(scripted) as server:
        async with server.connect(additional_headers=headers) as client:
            error = (await receive(client))["error"]
            assert (await closed(client))[0] == 3000
        # Browser SDKs ask for a key with this prefix; without a signature it is any key.
        made_up = {"Authorization": "Bearer ek_anything"}
        async with server.connect(additional_headers=made_up) as client:
            assert (await receive(client))["type"] == "session.created"

    assert error["code"] == "invalid_api_key"


async def test_a_transcription_secret_opens_a_transcription_session(keyed: Config) -> None:
    async with serving(keyed) as server:
        made = await post(server.port, "/client_secrets", {"session": {"type": "transcription"}})
        headers = {"Authorization": f"Bearer {made.json()['value']}"}
        async with server.connect(additional_headers=headers) as client:
            session = await opened(client)

    assert session["type"] == made.json()["session"]["type"] == "transcription"


@pytest.mark.parametrize(
    ("session", "query", "code"),
    [
        ({**SESSION, "tools": [{"type": "function", "name": "look"}]}, "", None),
        (SESSION, "?intent=transcription", "invalid_intent"),
        ({"type": "transcription"}, "?intent=transcription", None),
        ({"type": "transcription"}, "?model=gpt-realtime", None),
        ({"type": "realtime", "of_another_version": 1}, "", "unknown_parameter"),
        ({"type": "transcription", "audio": {"input": 7}}, "", "invalid_type"),
    ],
)
async def test_a_secret_whose_session_cannot_be_is_refused_by_name(
    keyed: Config, session: dict[str, Any], query: str, code: str | None
) -> None:
    key = "the key of several servers"
    secret = ClientSecrets(key).issue(ClientSecret(10**10, session))
    headers = {"Authorization": f"Bearer {secret}"}
    async with (
        serving(keyed.model_copy(update={"client_secret_key": key})) as server,
        server.connect(query, additional_headers=headers) as client,
    ):
        first = await receive(client)
        if code is None:
            assert first["session"]["type"] == session["type"]
        else:
            assert first["error"]["code"] == code
            assert await closed(client) == (4000, f"invalid_request_error.{code}")


async def test_the_betas_sessions_are_flat_and_have_the_secret_inside(keyed: Config) -> None:
    async with serving(keyed) as server:
        made = await post(server.port, "/sessions", {"voice": "verse", "modalities": ["text"]})
        secret = made.json()["client_secret"]
        headers = {"Authorization": f"Bearer {secret['value']}", "OpenAI-Beta": "realtime=v1"}
        async with server.connect(additional_headers=headers) as client:
            created = json.loads(await client.recv())["session"]

    assert (made.json()["voice"], made.json()["modalities"]) == ("verse", ["text"])
    assert (created["voice"], created["modalities"]) == ("verse", ["text"])
    assert 50 < secret["expires_at"] - time.time() <= 60


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/client_secrets", {"session": {"voice": "ash"}}, "session.voice"),
        ("/client_secrets", {"session": {"tools": [{}]}}, "session.tools[0].name"),
        ("/client_secrets", {"session": {"type": "dance"}}, "session.type"),
        ("/client_secrets", {"session": {"model": "nobody"}}, "session.model"),
        ("/client_secrets", {"expires_after": {"seconds": 5}}, "expires_after.seconds"),
        ("/client_secrets", {"sesion": {}}, "sesion"),
        ("/sessions", {"input_audio_format": "mp3"}, "input_audio_format"),
        ("/sessions", {"speed": 9}, "speed"),
        ("/sessions", {"type": "dance"}, "type"),
        ("/sessions", {"model": "nobody"}, "model"),
        ("/transcription_sessions", {"voice": "ash"}, "voice"),
        ("/transcription_sessions", {"turn_detection": 5}, "turn_detection"),
    ],
)
async def test_what_is_wrong_with_a_request_is_named(
    keyed: Config, path: str, body: dict[str, Any], param: str
) -> None:
    async with serving(keyed) as server:
        refused = await post(server.port, path, body)

    assert 400 <= refused.status_code < 500
    assert refused.json()["error"]["param"] == param
