"""A stage is told of a request when there is something to do, and of its end when it is news."""

from __future__ import annotations

from pipeline.control import Close, Emit, Feed, Open
from pipeline.links import Link
from pipeline.messages import Condition, End, Plan, Start, TextDelta
from pipeline.port import Port


class Wire:
    """The worker of a port: notes what it is told."""

    inbound: Link | None = None
    outbound: Link | None = None

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.forgotten: list[str] = []

    def send(self, message: object) -> None:
        self.sent.append(message)

    def forget(self, request_id: str) -> None:
        self.forgotten.append(request_id)

    def kinds(self) -> list[type]:
        return [type(message) for message in self.sent]


START = Start("one", Plan.SPEECH)


async def test_the_first_input_opens_the_request() -> None:
    worker = Wire()
    port = Port(worker, START)
    assert worker.sent == []
    await port.feed(Condition(text="Hi."))
    await port.feed(End())
    assert worker.kinds() == [Open, Feed, Feed]
    port.close()
    assert worker.kinds()[-1] is Close


async def test_a_stage_without_input_is_begun() -> None:
    worker = Wire()
    port = Port(worker, START)
    port.begin()
    port.begin()
    assert worker.sent == [Open(START)]


async def test_a_stage_that_never_heard_of_a_request_is_not_told_of_its_end() -> None:
    worker = Wire()
    port = Port(worker, START)
    port.close()
    assert worker.sent == []
    assert worker.forgotten == ["one"]


async def test_a_stage_that_has_ended_a_request_is_not_told_either() -> None:
    worker = Wire()
    port = Port(worker, START)
    port.begin()
    port.receive_emit(Emit("one", TextDelta("Hi.")))
    port.receive_emit(Emit("one", End()))
    port.close()
    assert worker.kinds() == [Open]
