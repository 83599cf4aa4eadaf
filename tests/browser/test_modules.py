"""The parts of the page that need no browser, in Node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("suite", sorted(path.name for path in HERE.glob("*.test.mjs")))
def test_modules_pass_their_own_tests(suite: str) -> None:
    node = shutil.which("node")
    assert node, "node is missing: run tests/prepare.sh"
    ran = subprocess.run([node, "--test", str(HERE / suite)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "# fail 0" in ran.stdout
    assert "# pass 0" not in ran.stdout
