"""The ASGI application: routes, the page, and the engine's life around them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

import web_demo
from pipeline.engine import Engine
from realtime import warmup, ws
from realtime.config import Config
from realtime.page import OriginGuard, Page
from realtime.rest import (
    chat,
    client_secrets,
    document,
    health,
    models,
    speech,
    transcriptions,
    watermark,
)
from realtime.rest.errors import install_error_handlers
from realtime.rest.request_id import RequestId
from realtime.service import Service


def create_app(config: Config, engine: Engine | None = None) -> FastAPI:
    """Build the server around an engine of its own, or the given one, not yet started.

    Raises ConfigError if the address would let strangers in without keys.
    """
    config.require_safe_bind()
    service = Service(config, engine or Engine(config))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # Not awaited: the port opens at once, and /ready tells when the models have loaded.
        starting = asyncio.create_task(service.start(lambda: warmup.warm_up(app, service)))
        try:
            yield
        finally:
            starting.cancel()
            await asyncio.wait([starting])
            await service.stop()

    app = FastAPI(title="Sori", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    install_error_handlers(app)
    app.include_router(health.router)
    app.include_router(models.router)
    app.include_router(chat.router)
    app.include_router(speech.router)
    app.include_router(transcriptions.router)
    app.include_router(watermark.router)
    app.include_router(document.router)
    app.include_router(client_secrets.router)
    app.include_router(ws.router)
    # Not a mount at "/": that would match every path, and hide 405 from the routes.
    app.router.default = Page(Path(web_demo.__file__).parent, otherwise=app.router.not_found)
    if config.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(config.allowed_origins),
            allow_methods=["*"],
            allow_headers=["*"],
        )
    app.add_middleware(OriginGuard, config=config)
    app.add_middleware(RequestId)
    return app
