"""Frames between server and worker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.control import Credit, Emit, FrameReader, Open, pack
from pipeline.messages import End, Plan, PromptItem, Start, TextDelta, Usage

MESSAGES = [
    Open(Start("r", Plan.SPEECH, items=(PromptItem("user", "hi"),))),
    Emit("r", TextDelta("hello")),
    Credit("r", 16),
    Emit("r", End("stop", Usage(1, 2, 3))),
]


@given(st.lists(st.integers(1, 50), max_size=20))
def test_messages_survive_any_cutting_of_the_stream(sizes: list[int]) -> None:
    stream = pack(MESSAGES[:2]) + pack([]) + pack(MESSAGES[2:])
    reader = FrameReader()
    received: list[object] = []
    for size in sizes:
        received += reader.receive_data(stream[:size])
        stream = stream[size:]
    received += reader.receive_data(stream)
    assert received == MESSAGES


def test_an_unfinished_frame_gives_nothing_yet() -> None:
    frame = pack(MESSAGES)
    reader = FrameReader()
    assert list(reader.receive_data(frame[:-1])) == []
    assert list(reader.receive_data(frame[-1:])) == MESSAGES
