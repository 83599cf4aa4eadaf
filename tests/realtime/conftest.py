"""A whole server without models: every stage scripted, each in a thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config import STAGE_NAMES, StageConfig, StagesConfig
from realtime.config import Config


@pytest.fixture
def scripted(tmp_path: Path) -> Config:
    """A configuration to copy from; `model_copy(update=...)` changes a key."""
    stages = {
        name: StageConfig(kind=f"scripted_{name}", placement="thread") for name in STAGE_NAMES
    }
    return Config(home=tmp_path, port=0, stages=StagesConfig(**stages))
