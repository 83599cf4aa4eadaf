"""Percentiles and what is printed of them."""

import json

import pytest

from bench.machine import describe_machine
from bench.report import print_report, render_table, summaries_json, summarise


def test_percentiles_leave_out_what_was_not_measured() -> None:
    summary = summarise([100.0, None, 200.0, 300.0, float("nan")])
    assert summary is not None
    assert (summary.p50, summary.count) == (200.0, 3)
    assert summary.p95 == pytest.approx(290.0)


def test_nothing_measured_is_shown_as_nothing() -> None:
    rows = {"a": summarise([1.0]), "bb": summarise([])}
    assert summaries_json(rows) == {"a": {"p50": 1.0, "p95": 1.0, "n": 1}, "bb": None}
    lines = render_table(rows, "ms").splitlines()
    assert len(lines) == 3
    assert lines[2].split() == ["bb", "-", "-", "0"]


def test_the_last_line_is_the_result_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(["a table"], {"bench": "x", "machine": describe_machine()})
    last = capsys.readouterr().out.splitlines()[-1]
    machine = json.loads(last)["machine"]
    assert machine["cores"] >= 1
    assert machine["cpu"]
