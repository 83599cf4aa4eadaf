"""`sori bench omni` with the tiny models: three processes, and every row of its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bench.device_handoff import handoff_lines, round_trip_us
from bench.omni import covered, main


def test_three_processes_speak_and_every_time_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--size", "tiny", "--turns", "1", "--folder", str(tmp_path)]
    assert main(arguments) == 0
    *lines, last = capfd.readouterr().out.splitlines()
    document = json.loads(last)
    assert document["settings"]["size"] == "tiny"
    for row in document["ms"].values():
        assert all(value is not None and value >= 0 for value in row.values())
        assert row["first text"] < row["first frames"] < row["first audio"]
        assert 0 < row["of it, no stage computes"] < row["first audio"]
        assert row["of that, pool put"] + row["of that, pool get"] > 0
    assert any("CUDA IPC: skipped" in line for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_made_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "qwen2.5-omni", "--size", "real", "--folder", str(tmp_path)]) == 1
    assert "--size real is there for qwen3-omni only" in capfd.readouterr().err


def test_time_in_which_two_stages_compute_counts_once() -> None:
    assert covered([(0, 2), (1, 3), (5, 6), (5.5, 5.75)]) == 4


def test_another_process_adds_up_what_the_hosts_pool_hands_over() -> None:
    assert round_trip_us(1 << 16, "cpu", on_device=False) > 0


@pytest.mark.gpu
def test_both_pools_hand_over_what_lies_on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device: nothing lies on one")
    title, *rows = handoff_lines("cuda:0")
    assert title == "host pool against CUDA IPC, of a tensor on cuda:0, there and back:"
    assert [row.count("µs") for row in rows] == [2, 2]
