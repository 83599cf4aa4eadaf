"""What the engine can be told: one stage each, and the limits that hold it together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

STAGE_NAMES = ("ears", "turn_detector", "transcriber", "thinker", "talker", "voicebox")


def default_home() -> Path:
    """The cache of models: `$SORI_HOME`, else `~/.cache/sori`."""
    return Path(os.environ.get("SORI_HOME") or Path.home() / ".cache" / "sori")


class StageConfig(BaseModel):
    """One stage: which implementation, where it runs, and its own options."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    placement: Literal["process", "thread"] = "process"
    threads: int = Field(1, ge=1, le=256)
    device: str = "cpu"
    options: dict[str, Any] = Field(default_factory=dict)


class StagesConfig(BaseModel):
    """The stages. The defaults are the embedded CPU models, with threads for two cores."""

    model_config = ConfigDict(extra="forbid")

    ears: StageConfig = StageConfig(kind="silero")
    turn_detector: StageConfig = StageConfig(kind="smart_turn")
    transcriber: StageConfig = StageConfig(kind="whisper")
    thinker: StageConfig = StageConfig(kind="llama")
    talker: StageConfig = StageConfig(kind="hibari_talker")
    voicebox: StageConfig = StageConfig(kind="hibari_voicebox")


class WatermarkConfig(BaseModel):
    """The mark in all generated audio. key: empty for one that is made once and kept in `home`.

    weights: of AudioSeal's generator: a card of its package or a file. Empty: its streaming card.
    """

    model_config = ConfigDict(extra="forbid")

    enabled: bool = True
    backend: Literal["sori", "audioseal"] = "sori"
    key: str = ""
    weights: str = ""
    payload: int = Field(0, ge=0, le=0xFFFF)


class EngineConfig(BaseModel):
    """Keys of the configuration that the engine reads. Times in the unit of their suffix."""

    model_config = ConfigDict(extra="forbid")

    home: Path = Field(default_factory=default_home)
    stages: StagesConfig = StagesConfig()
    watermark: WatermarkConfig = WatermarkConfig()
    cascade: Literal["streamed", "sequential"] = "streamed"
    handoff: Literal["pool", "pickle"] = "pool"
    max_requests: int = Field(256, ge=1)
    credits_per_request: int = Field(2, ge=1, description="slots one request may hold on a link")
    max_concurrent_synthesis: int = Field(2, ge=1)
    max_queued_synthesis: int = Field(256, ge=0)
    synthesis_timeout_s: float = Field(30.0, gt=0)
    synthesis_lead_ms: int = Field(4000, ge=100)
    heartbeat_timeout_s: float = Field(5.0, gt=0)
    step_timeout_s: float = Field(30.0, gt=0)
    load_timeout_s: float = Field(300.0, gt=0)
    trace: Path | None = None
