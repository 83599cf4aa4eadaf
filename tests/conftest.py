"""Fixtures that every folder of tests may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config import default_home
from pipeline.models import store

pytest_plugins = ["servers", "rest_server"]


@pytest.fixture(scope="session")
def models_home() -> Path:
    """The cache of models, complete; fetched on first use."""
    home = default_home()
    store.fetch(home)
    return home
