"""Charts are SVG that any browser reads, with every name and number in them."""

from __future__ import annotations

import xml.etree.ElementTree as xml

from bench.chart import Point, Step, draw_points, draw_steps, steps_of


def texts(drawing: str) -> list[str]:
    return [node.text or "" for node in xml.fromstring(drawing).iter() if node.tag.endswith("text")]


def bars(drawing: str) -> list[tuple[float, float]]:
    return [
        (float(node.attrib["x"]), float(node.attrib["width"]))
        for node in xml.fromstring(drawing).iter()
        if node.tag.endswith("rect")
    ]


def test_steps_lie_on_one_axis_of_time() -> None:
    drawing = draw_steps("A <turn>", [Step("first", 0, 100), Step("second & last", 50, 200)])
    assert {"A <turn>", "first", "second & last", "100", "200"} <= set(texts(drawing))
    (begin_a, length_a), (begin_b, length_b) = bars(drawing)
    assert abs(begin_b - begin_a - length_a / 2) < 0.2
    assert abs(length_b / length_a - 1.5) < 0.01


def test_steps_with_an_unknown_end_are_left_out() -> None:
    names = (("known", "a", "b"), ("unknown", "b", "c"))
    assert steps_of({"a": 1.0, "b": 3.0}, names) == [Step("known", 1.0, 3.0)]
    assert xml.fromstring(draw_steps("nothing", [])) is not None


def test_points_show_share_and_price() -> None:
    drawing = draw_points("t", "x", "y", [Point("low", 600, 0.95), Point("high", 300, 0.8)])
    assert {"low: 95%, 600 ms", "high: 80%, 300 ms"} <= set(texts(drawing))
    circles = [node for node in xml.fromstring(drawing).iter() if node.tag.endswith("circle")]
    low, high = (float(circle.attrib["cy"]) for circle in circles)
    assert low < high  # higher up is better
