"""Percentiles, a table for people, and the last line for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Summary:
    """p50 and p95 of some measurements, linearly interpolated, and how many there were."""

    p50: float
    p95: float
    count: int

    def to_json(self) -> dict[str, float | int]:
        """Rounded to a tenth."""
        return {"p50": round(self.p50, 1), "p95": round(self.p95, 1), "n": self.count}


def summarise(values: Iterable[float | None]) -> Summary | None:
    """Leave out what was not measured; None if nothing was."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return None
    p50, p95 = np.percentile(known, [50, 95])
    return Summary(float(p50), float(p95), len(known))


def render_table(rows: Mapping[str, Summary | None], unit: str) -> str:
    """One line a measurement."""
    width = max(len(name) for name in rows)
    lines = [f"{'':{width}}  {'p50':>8}  {'p95':>8}  {'n':>4}   ({unit})"]
    for name, summary in rows.items():
        if summary is None:
            lines.append(f"{name:{width}}  {'-':>8}  {'-':>8}  {0:>4}")
        else:
            lines.append(
                f"{name:{width}}  {summary.p50:>8.0f}  {summary.p95:>8.0f}  {summary.count:>4}"
            )
    return "\n".join(lines)


def summaries_json(rows: Mapping[str, Summary | None]) -> dict[str, Any]:
    """The same for programs."""
    return {name: summary.to_json() if summary else None for name, summary in rows.items()}


def print_report(lines: Sequence[str], result: Mapping[str, Any]) -> None:
    """The lines, and last the result as one line of JSON."""
    for line in lines:
        print(line)
    print(json.dumps(result), flush=True)
