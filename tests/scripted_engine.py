"""Engines of scripted stages, for tests that need no model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from pipeline.config import STAGE_NAMES, EngineConfig, StageConfig, StagesConfig
from pipeline.engine import Engine
from pipeline.messages import PipelineMessage, Plan, PromptItem, Start

Placement = Literal["process", "thread"]


def scripted_stages(placement: Placement = "thread", **options: dict[str, Any]) -> StagesConfig:
    """All stages scripted; `options` by stage name."""
    return StagesConfig(
        **{
            name: StageConfig(
                kind=f"scripted_{name}", placement=placement, options=options.get(name, {})
            )
            for name in STAGE_NAMES
        }
    )


@asynccontextmanager
async def scripted_engine(
    placement: Placement = "thread",
    limits: dict[str, Any] | None = None,
    **options: dict[str, Any],
) -> AsyncIterator[Engine]:
    """A started engine, shut down at the end."""
    engine = Engine(EngineConfig(stages=scripted_stages(placement, **options), **(limits or {})))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.shutdown()


def ask(request_id: str, plan: Plan = Plan.SPEECH, text: str = "Say something.") -> Start:
    """A request with one user message."""
    return Start(request_id, plan, items=(PromptItem("user", text),))


async def collect(messages: AsyncIterator[PipelineMessage]) -> list[PipelineMessage]:
    """Everything up to the end."""
    return [message async for message in messages]
