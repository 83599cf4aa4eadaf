"""One stage in its loop: what enters a step, what leaves it, what a fault costs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import runner
from pipeline.config import StageConfig
from pipeline.control import (
    Beat,
    Close,
    Consumed,
    Credit,
    Emit,
    Feed,
    LoadFailed,
    Open,
    Permit,
    PoolPort,
    Ready,
    Release,
    Stepped,
    WorkerSpec,
)
from pipeline.messages import Audio, End, Failed, Plan, Start, TextDelta
from pipeline.pool import Lease, PoolLayout, inline
from pipeline.runner import ControlSocket, build_runner
from pipeline.stage import Batch, Output, Stage, StageError, StageSettings, Work

Step = Callable[[Work], list[Output]]
LAYOUT = PoolLayout(slots=4, slot_nbytes=8192)


class Probe(Stage):
    """Calls `action` for each request and records what happens to it."""

    action: Step = staticmethod(lambda work: [])
    load_error: Exception | None = None

    def __init__(self, settings: StageSettings) -> None:
        self.closed: list[str] = []

    def load(self) -> None:
        if self.load_error:
            raise self.load_error

    def open(self, start: Start) -> None:
        pass

    def step(self, batch: Batch) -> list[Output]:
        return [output for work in batch for output in type(self).action(work)]

    def close(self, request_id: str) -> None:
        self.closed.append(request_id)


class Peer:
    """The server's end: sends control messages, receives everything but beats."""

    def __init__(self, sock: socket.socket, stage: Probe) -> None:
        self.stage = stage
        self._control = ControlSocket(sock)
        self._received: list[Any] = []

    def send(self, *messages: object) -> None:
        self._control.send(list(messages))

    def receive(self, kind: type) -> Any:
        """The next message of a kind; others before it are dropped."""
        while True:
            while self._received:
                message = self._received.pop(0)
                if isinstance(message, kind):
                    return message
            self._received += [
                message for message in self._control.receive() if not isinstance(message, Beat)
            ]


@pytest.fixture
def start_runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Peer]]:
    ends: list[tuple[socket.socket, threading.Thread]] = []

    def start(action: Step, *, gated: bool = False, credits: int = 2, window: int = 64) -> Peer:
        probe = Probe(StageSettings())
        monkeypatch.setattr(Probe, "action", staticmethod(action))
        monkeypatch.setattr(runner, "create_stage", lambda kind, settings: probe)
        ours, theirs = socket.socketpair()
        spec = WorkerSpec(
            "probe",
            StageConfig(kind="probe", placement="thread"),
            Path(),
            epoch=1,
            gated=gated,
            credits_per_request=credits,
            output_window=window,
            beat_interval_s=0.5,
            inbound=None,
            outbound=PoolPort(LAYOUT, -1),
        )
        built = build_runner(spec, ControlSocket(theirs), None, LAYOUT.create())
        thread = threading.Thread(target=built.run)
        thread.start()
        ends.append((ours, thread))
        return Peer(ours, probe)

    yield start
    for ours, thread in ends:
        ours.close()
        thread.join(5)
        assert not thread.is_alive()


def begin(peer: Peer, *request_ids: str) -> None:
    peer.receive(Ready)
    peer.send(*(Open(Start(request_id, Plan.SPEECH)) for request_id in request_ids))


def test_a_request_may_step_once_without_input(start_runner: Callable[..., Peer]) -> None:
    peer = start_runner(lambda work: [Output(work.request_id, TextDelta("hi"))])
    begin(peer, "r")
    assert peer.receive(Emit) == Emit("r", TextDelta("hi"))


def test_a_gated_request_steps_only_with_a_permit(start_runner: Callable[..., Peer]) -> None:
    leads = []

    def action(work: Work) -> list[Output]:
        leads.append(work.lead_ms)
        return []

    peer = start_runner(action, gated=True)
    begin(peer, "r")
    peer.send(Feed("r", TextDelta("a")), Permit("r", 120.0))
    assert peer.receive(Stepped) == Stepped("r", 1, False)
    peer.send(Feed("r", TextDelta("b")))
    peer.send(Permit("r", 80.0))
    assert peer.receive(Stepped) == Stepped("r", 1, False)
    assert leads == [120.0, 80.0]


def test_what_runs_in_the_background_lets_others_go_first(
    start_runner: Callable[..., Peer],
) -> None:
    order: list[str] = []
    entered, leave = threading.Event(), threading.Event()

    def action(work: Work) -> list[Output]:
        order.append(work.request_id)
        if work.request_id == "first":
            entered.set()
            assert leave.wait(5)
        work.more = work.request_id == "job" and order.count("job") < 3
        return [Output(work.request_id, TextDelta("hi"))]

    peer = start_runner(action)
    begin(peer, "first")
    assert entered.wait(5)
    jobs = [Open(Start(name, Plan.SPEECH, background=True)) for name in ("job", "later job")]
    peer.send(*jobs, Open(Start("live", Plan.SPEECH)))
    leave.set()
    for _ in range(6):
        peer.receive(Emit)
    # The younger job does not wait for the end of the older one.
    assert order == ["first", "live", "job", "later job", "job", "job"]


def test_an_array_larger_than_a_slot_comes_in_ordered_parts(
    start_runner: Callable[..., Peer],
) -> None:
    array = np.arange(3 * 4096, dtype=np.int16).reshape(-1, 64)
    peer = start_runner(
        lambda work: [Output("r", Audio(0), array), Output("r", TextDelta("after"))], credits=1
    )
    begin(peer, "r")
    parts = [peer.receive(Emit)]
    assert isinstance(parts[0].payload, Lease)
    peer.send(Release(parts[0].payload))
    parts.append(peer.receive(Emit))
    peer.send(Release(parts[1].payload))
    parts.append(peer.receive(Emit))
    assert [(part.part, part.parts) for part in parts] == [(0, 3), (1, 3), (2, 3)]
    assert peer.receive(Emit).message == TextDelta("after")


def test_an_output_that_no_slot_can_take_fails_its_request_alone(
    start_runner: Callable[..., Peer],
) -> None:
    def action(work: Work) -> list[Output]:
        columns = LAYOUT.slot_nbytes if work.request_id == "vast" else 4
        return [Output(work.request_id, Audio(0), np.zeros((2, columns), np.int16))]

    peer = start_runner(action)
    begin(peer, "vast", "modest")
    failed = peer.receive(Emit)
    assert (failed.request_id, failed.message.code) == ("vast", "probe_error")
    assert "does not fit a slot" in failed.message.message
    assert peer.receive(Emit).request_id == "modest"


def test_a_request_without_credit_does_not_step_and_others_do(
    start_runner: Callable[..., Peer],
) -> None:
    def action(work: Work) -> list[Output]:
        work.more = work.request_id == "greedy"
        return [Output(work.request_id, Audio(0), np.zeros(4000, np.int16))]

    peer = start_runner(action, credits=2)
    begin(peer, "greedy")
    for _ in range(2):
        assert peer.receive(Emit).request_id == "greedy"
    peer.send(Open(Start("modest", Plan.SPEECH)))
    assert peer.receive(Emit).request_id == "modest"


def test_the_output_window_stops_a_request_until_the_server_has_taken(
    start_runner: Callable[..., Peer],
) -> None:
    count = 0

    def action(work: Work) -> list[Output]:
        nonlocal count
        count += 1
        work.more = True
        return [Output("r", TextDelta(str(count)))]

    peer = start_runner(action, window=3)
    begin(peer, "r")
    assert [peer.receive(Emit).message.text for _ in range(3)] == ["1", "2", "3"]
    peer.send(Credit("r", 1))
    assert peer.receive(Emit).message.text == "4"
    assert count == 4


def test_a_stage_error_fails_its_request_with_its_code(start_runner: Callable[..., Peer]) -> None:
    def action(work: Work) -> list[Output]:
        if work.request_id == "bad":
            raise StageError("bad", "too_odd", "no")
        return [Output(work.request_id, End())]

    peer = start_runner(action)
    begin(peer, "bad", "good")
    assert peer.receive(Emit) == Emit("bad", Failed("too_odd", "no"))
    assert peer.receive(Emit) == Emit("good", End())
    assert peer.stage.closed == ["bad", "good"]


def test_any_other_exception_names_the_stage(start_runner: Callable[..., Peer]) -> None:
    def action(work: Work) -> list[Output]:
        raise ZeroDivisionError("division by zero")

    peer = start_runner(action)
    begin(peer, "r")
    expected = Failed("probe_error", "ZeroDivisionError: division by zero")
    assert peer.receive(Emit) == Emit("r", expected)


def test_a_closed_request_gives_its_inputs_back(start_runner: Callable[..., Peer]) -> None:
    peer = start_runner(lambda work: [], gated=True)
    begin(peer, "r")
    lease = Lease(0, 1, 1, "<i2", (4,))
    peer.send(Feed("r", Audio(4), lease), Close("r"), Close("r"))
    assert peer.receive(Consumed) == Consumed(lease)
    peer.send(Feed("r", Audio(4), lease))
    assert peer.receive(Consumed) == Consumed(lease)
    assert peer.stage.closed == ["r"]


def test_a_stage_wakes_its_request_from_a_thread_of_its_own(
    start_runner: Callable[..., Peer],
) -> None:
    steps = 0

    def action(work: Work) -> list[Output]:
        nonlocal steps
        steps += 1
        if steps == 1:
            threading.Thread(target=peer.stage.wake, args=("r",)).start()
            return []
        return [Output("r", End())]

    peer = start_runner(action)
    begin(peer, "r")
    assert peer.receive(Emit) == Emit("r", End())


def test_a_stage_that_cannot_load_says_why(
    start_runner: Callable[..., Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Probe, "load_error", FileNotFoundError("no weights"))
    peer = start_runner(lambda work: [])
    assert peer.receive(LoadFailed) == LoadFailed("FileNotFoundError: no weights")


def test_inline_inputs_reach_the_step_as_arrays(start_runner: Callable[..., Peer]) -> None:
    def action(work: Work) -> list[Output]:
        total = sum(int(given.array.sum()) for given in work.inputs if given.array is not None)
        return [Output("r", TextDelta(str(total)))] if work.inputs else []

    peer = start_runner(action)
    begin(peer, "r")
    peer.send(Feed("r", Audio(3), inline(np.array([1, 2, 3], np.int16))))
    assert peer.receive(Emit).message == TextDelta("6")


def test_a_stage_that_stands_still_outside_its_steps_is_told_with_the_beat(
    start_runner: Callable[..., Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Probe, "stalled_s", lambda self: 42.0)
    peer = start_runner(lambda work: [])
    while True:
        for message in peer._control.receive():
            if isinstance(message, Beat) and message.step_s == 42.0:
                return
