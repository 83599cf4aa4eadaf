"""Charts as SVG, drawn by hand: no library is worth a bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, ROW, LEFT, TOP = 760, 34, 210, 46
COLOURS = ("#7aa2f7", "#9ece6a", "#e0af68", "#f7768e", "#bb9af7", "#7dcfff", "#c0caf5")


@dataclass(frozen=True, slots=True)
class Step:
    """A bar from one moment to another, in milliseconds."""

    name: str
    from_ms: float
    until_ms: float


def steps_of(points_ms: Mapping[str, float], names: Sequence[tuple[str, str, str]]) -> list[Step]:
    """Bars between points. names: (what to call it, from which point, until which).

    Steps with an unknown point are left out.
    """
    return [
        Step(name, points_ms[begin], points_ms[end])
        for name, begin, end in names
        if begin in points_ms and end in points_ms
    ]


def draw_steps(title: str, steps: Sequence[Step]) -> str:
    """One row a step, on one axis of time: what overlaps is seen to overlap."""
    last_ms = max((step.until_ms for step in steps), default=1.0)
    scale = (WIDTH - LEFT - 70) / max(last_ms, 1.0)
    rows = []
    for at, step in enumerate(steps):
        y = TOP + at * ROW
        x = LEFT + step.from_ms * scale
        width = max((step.until_ms - step.from_ms) * scale, 1.5)
        rows.append(
            f'<text x="{LEFT - 10}" y="{y + 18}" text-anchor="end">{escape(step.name)}</text>'
            f'<rect x="{x:.1f}" y="{y + 4}" width="{width:.1f}" height="20" rx="3" '
            f'fill="{COLOURS[at % len(COLOURS)]}"/>'
            f'<text x="{x + width + 6:.1f}" y="{y + 18}">{step.until_ms:.0f}</text>'
        )
    height = TOP + len(steps) * ROW + 14
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="13" fill="#888">'
        f'<text x="10" y="24" font-size="15">{escape(title)}</text>{"".join(rows)}</svg>\n'
    )


@dataclass(frozen=True, slots=True)
class Point:
    """x in milliseconds, y as a share from 0 to 1."""

    name: str
    x_ms: float
    share: float


def draw_points(title: str, x_name: str, y_name: str, points: Sequence[Point]) -> str:
    """What is gained on one axis is paid on the other."""
    height, bottom = 320, 270
    last_ms = max((point.x_ms for point in points), default=1.0) * 1.25
    lowest = min(0.5, *(point.share for point in points)) if points else 0.0
    width = WIDTH - 200
    marks = []
    for at, point in enumerate(points):
        x = 70 + point.x_ms / last_ms * width
        y = bottom - (point.share - lowest) / (1 - lowest) * (bottom - TOP)
        marks.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{COLOURS[at % len(COLOURS)]}"/>'
            f'<text x="{x + 12:.1f}" y="{y + 5:.1f}">{escape(point.name)}: '
            f"{point.share:.0%}, {point.x_ms:.0f} ms</text>"
        )
    axes = (
        f'<path d="M70 {TOP} V{bottom} H{70 + width}" fill="none" stroke="#888"/>'
        f'<text x="60" y="{TOP + 5}" text-anchor="end">100 %</text>'
        f'<text x="60" y="{bottom}" text-anchor="end">{lowest:.0%}</text>'
        f'<text x="{70 + width}" y="{bottom + 24}" text-anchor="end">{escape(x_name)}</text>'
        f'<text x="70" y="{TOP - 8}">{escape(y_name)}</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="13" fill="#888">'
        f'<text x="10" y="20" font-size="15">{escape(title)}</text>{axes}{"".join(marks)}</svg>\n'
    )


def write_chart(path: Path, drawing: str) -> None:
    """Write the file."""
    path.write_text(drawing, encoding="utf-8")
