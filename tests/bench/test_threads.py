"""`sori bench threads`: a budget changes the threads of the stages it names, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.overhead import config as scripted
from bench.threads import main, threads_of, with_budget


def test_a_budget_changes_what_it_names() -> None:
    given: dict[str, Any] = {
        "stages": {"thinker": {"kind": "llama"}, "ears": {"threads": 3}},
        "max_sessions": 2,
    }
    changed = with_budget(given, "thinker=2,talker=4")
    assert changed["stages"] == {
        "thinker": {"kind": "llama", "threads": 2},
        "ears": {"threads": 3},
        "talker": {"threads": 4},
    }
    assert changed["max_sessions"] == 2
    assert given["stages"]["thinker"] == {"kind": "llama"}
    assert with_budget(given, "default") == given


@pytest.mark.parametrize("wrong", ["thinker", "thinker=0", "thinker=x", "mouth=1", "thinker=1,"])
def test_what_is_no_budget_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="STAGE=THREADS"):
        threads_of(wrong)
    with pytest.raises(SystemExit):
        main([wrong])
    assert "STAGE=THREADS" in capsys.readouterr().err


def test_each_budget_has_its_turns(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scripted.yaml"
    path.write_text(yaml.safe_dump(scripted(4)))
    arguments = ["default", "talker=2", "--config", str(path), "--rounds", "1", "--turns", "1"]
    main([*arguments, "--sessions", "1"])
    document = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert document["bench"] == "threads"
    assert document["failed"] == 0
    assert all(row["n"] == 1 for row in document["voice_to_voice_ms"].values())
    assert set(document["voice_to_voice_ms"]) == {"default", "talker=2"}
