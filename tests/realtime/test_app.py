"""The HTTP side of the server, without a network and without models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from pipeline.config import STAGE_NAMES
from pipeline.engine import Engine
from realtime.app import create_app
from realtime.config import Config, ConfigError
from realtime.service import Phase, Service


class GatedEngine(Engine):
    """An engine that starts when the test lets it, or fails."""

    def __init__(self, config: Config, failure: str = "") -> None:
        super().__init__(config)
        self.gate = asyncio.Event()
        self.failure = failure

    async def start(self, stages: Any = None) -> None:
        await self.gate.wait()
        if self.failure:
            raise RuntimeError(self.failure)
        await super().start()


@asynccontextmanager
async def serving(app: FastAPI, host: str = "127.0.0.1:8000") -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client,
    ):
        yield client


async def test_health_answers_while_ready_says_what_it_waits_for(scripted: Config) -> None:
    engine = GatedEngine(scripted)
    app = create_app(scripted, engine)
    service: Service = app.state.service
    async with serving(app) as client:
        assert (await client.get("/health")).json() == {"status": "ok"}
        waiting = await client.get("/ready")
        assert waiting.status_code == 503
        assert waiting.json() == {"status": "loading", "reason": "the models are loading"}
        assert "sori_ready 0.0" in (await client.get("/metrics")).text

        engine.gate.set()
        await service.settled.wait()

        assert (await client.get("/ready")).status_code == 200
        metrics = await client.get("/metrics")
        assert "sori_ready 1.0" in metrics.text
        for stage in STAGE_NAMES:
            assert f'sori_worker_ready{{stage="{stage}"}} 1.0' in metrics.text
            assert f'sori_worker_restarts_total{{stage="{stage}"}} 0.0' in metrics.text
        assert 'sori_link_slots_lent{link="voicebox-server"} 0.0' in metrics.text
        assert "sori_synthesis_waiting 0.0" in metrics.text
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_an_engine_that_cannot_start_is_the_reason_why_not_ready(scripted: Config) -> None:
    engine = GatedEngine(scripted, failure="models/voice.onnx is missing")
    app = create_app(scripted, engine)
    engine.gate.set()
    async with serving(app) as client:
        await app.state.service.settled.wait()

        ready = await client.get("/ready")

    assert ready.status_code == 503
    assert ready.json() == {"status": "failed", "reason": "models/voice.onnx is missing"}


async def test_shutdown_while_loading_ends_the_engine(scripted: Config) -> None:
    app = create_app(scripted, GatedEngine(scripted))
    async with serving(app):
        pass

    assert app.state.service.phase is Phase.STOPPED


async def test_models_are_listed_and_found_by_alias(scripted: Config) -> None:
    async with serving(create_app(scripted)) as client:
        listed = (await client.get("/v1/models")).json()
        alias = (await client.get("/v1/models/gpt-realtime")).json()
        unknown = await client.get("/v1/models/nobody")

    assert [model["id"] for model in listed["data"]] == ["sori"]
    assert set(alias) == {"id", "object", "created", "owned_by", "capabilities", "watermark"}
    assert alias["capabilities"]["input_modalities"] == ["text", "audio"]
    assert alias["id"] == "gpt-realtime"
    assert unknown.status_code == 404
    assert unknown.json()["error"]["code"] == "model_not_found"


async def test_v1_routes_need_the_key_and_health_does_not(scripted: Config) -> None:
    app = create_app(scripted.model_copy(update={"api_keys": ("secret",)}))
    async with serving(app) as client:
        refused = await client.get("/v1/models")
        admitted = await client.get("/v1/models", headers={"Authorization": "Bearer secret"})
        health = await client.get("/health")

    assert refused.status_code == 401
    assert refused.json()["error"] == {
        "message": "Incorrect API key provided.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }
    assert (admitted.status_code, health.status_code) == (200, 200)


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/v1/nothing", 404, "Unknown path: GET /v1/nothing"),
        ("POST", "/v1/nothing", 404, "Unknown path: POST /v1/nothing"),
        ("GET", "/__init__.py", 404, "Unknown path"),
        ("GET", "/../pyproject.toml", 404, "Unknown path"),
        ("POST", "/health", 405, "Method not allowed: POST /health"),
    ],
)
async def test_http_errors_have_one_shape(
    scripted: Config, method: str, path: str, status: int, words: str
) -> None:
    async with serving(create_app(scripted)) as client:
        response = await client.request(method, path)

    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert words in error["message"]


async def test_a_bug_in_a_route_is_a_500_in_the_same_shape(
    scripted: Config, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(scripted)

    async def broken() -> None:
        raise ZeroDivisionError("secret detail")

    async def picky(count: int) -> None:
        """Only for its validation."""

    app.get("/broken")(broken)
    app.get("/picky")(picky)
    async with serving(app) as client:
        bug = await client.get("/broken")
        missing = await client.get("/picky")
        invalid = await client.get("/picky?count=x")

    assert bug.status_code == 500
    assert bug.json()["error"]["type"] == "server_error"
    assert "secret" not in bug.text
    assert "ZeroDivisionError" in caplog.text
    assert missing.json()["error"]["code"] == "missing_required_parameter"
    assert (invalid.status_code, invalid.json()["error"]["param"]) == (422, "count")


async def test_the_page_is_served_fresh_and_scripts_as_javascript(
    scripted: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").write_text("<!doctype html><title>Sori</title>")
    (tmp_path / "worklet.js").write_text("export {};")
    monkeypatch.setattr("web_demo.__file__", str(tmp_path / "__init__.py"))
    async with serving(create_app(scripted)) as client:
        page = await client.get("/")
        script = await client.get("/worklet.js")

    assert "<title>Sori" in page.text
    assert page.headers["cache-control"] == "no-cache"
    assert script.headers["content-type"].startswith("text/javascript")


async def test_pages_from_elsewhere_are_refused_unless_allowed(scripted: Config) -> None:
    app = create_app(scripted.model_copy(update={"allowed_origins": ("https://app.example",)}))
    async with serving(app) as client:
        stranger = await client.get("/v1/models", headers={"Origin": "https://evil.example"})
        friend = await client.get("/v1/models", headers={"Origin": "https://app.example"})
        own = await client.get("/v1/models", headers={"Origin": "http://127.0.0.1:8000"})

    assert stranger.status_code == 403
    assert stranger.json()["error"]["code"] == "origin_not_allowed"
    assert friend.status_code == 200
    assert friend.headers["access-control-allow-origin"] == "https://app.example"
    assert own.status_code == 200


def test_strangers_are_not_served_by_accident(scripted: Config) -> None:
    with pytest.raises(ConfigError, match="api_keys"):
        create_app(scripted.model_copy(update={"host": "0.0.0.0"}))
