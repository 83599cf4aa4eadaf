"""Who gets which slot: sessions go home, cancelled replies are waited for, nobody starves."""

from __future__ import annotations

from pipeline.messages import Plan, Start
from pipeline.stages.llama_slots import Reply, Slots


def reply(session_id: str = "", *, speculative: bool = False) -> Reply:
    return Reply(Start("r", Plan.TEXT, session_id=session_id, speculative=speculative))


def run(slots: Slots, session_id: str = "") -> Reply:
    """A request that runs and ends."""
    slots.add(reply(session_id))
    taken = slots.take()
    assert taken is not None
    slots.free(taken)
    return taken


def start(slots: Slots, session_id: str = "") -> Reply:
    """A request that goes on running."""
    slots.add(reply(session_id))
    taken = slots.take()
    assert taken is not None
    return taken


def test_a_session_comes_back_to_its_slot() -> None:
    slots = Slots(3)
    first = {name: run(slots, name).slot for name in "abc"}
    assert sorted(first.values()) == [0, 1, 2]
    again = [run(slots, name) for name in "cab"]
    assert {reply.start.session_id: reply.slot for reply in again} == first
    assert all(reply.at_home for reply in again)


def test_a_new_session_gets_the_slot_that_was_used_longest_ago() -> None:
    slots = Slots(2)
    run(slots, "a")
    b = run(slots, "b")
    run(slots, "a")
    c = run(slots, "c")
    assert c.slot == b.slot
    assert not c.at_home
    assert not run(slots, "b").at_home


def test_requests_without_a_session_leave_sessions_where_they_are() -> None:
    slots = Slots(2)
    a = run(slots, "a")
    for _ in range(3):
        assert run(slots).slot != a.slot
    assert run(slots, "a").at_home


def test_a_session_waits_for_its_slot_while_its_cancelled_reply_ends() -> None:
    slots = Slots(2)
    old = start(slots, "a")
    old.cancelled.set()
    slots.add(reply("a"))
    assert slots.take() is None
    slots.free(old)
    new = slots.take()
    assert new is not None
    assert (new.slot, new.at_home) == (old.slot, True)


def test_others_pass_a_session_that_waits_for_its_slot() -> None:
    slots = Slots(2)
    start(slots, "a").cancelled.set()
    slots.add(reply("a"))
    assert start(slots, "b").start.session_id == "b"


def test_a_second_request_of_a_session_runs_beside_its_first() -> None:
    slots = Slots(2)
    first = start(slots, "a")
    second = start(slots, "a")
    assert second.slot != first.slot
    slots.free(second)
    slots.free(first)
    assert run(slots, "a").slot == first.slot


def test_a_request_waits_while_all_slots_are_taken() -> None:
    slots = Slots(1)
    running = start(slots)
    slots.add(reply())
    assert slots.take() is None
    slots.free(running)
    assert slots.take() is not None


def test_a_request_that_is_cancelled_while_it_waits_never_runs() -> None:
    slots = Slots(1)
    running = start(slots)
    waiting = reply()
    slots.add(waiting)
    waiting.cancelled.set()
    slots.free(running)
    assert slots.take() is None


def test_speculation_lets_others_pass() -> None:
    slots = Slots(1)
    guess, asked = reply("a", speculative=True), reply("b")
    slots.add(guess)
    slots.add(asked)
    assert slots.take() is asked
    slots.free(asked)
    assert slots.take() is guess


def test_a_session_with_many_requests_lets_others_in_between() -> None:
    slots = Slots(2)
    busy = [reply("a") for _ in range(4)]
    for one in busy:
        slots.add(one)
    assert slots.take() is busy[0]
    other = reply("b")
    slots.add(other)
    assert slots.take() is other
    slots.free(busy[0])
    assert slots.take() is busy[1]
