"""The slots of a link: leases, credits, generations, epochs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.memory import SharedMemory
from pipeline.pool import (
    INLINE_NBYTES,
    Lease,
    PoolLayout,
    PoolReader,
    PoolWriter,
    StaleLease,
    cut,
    inline,
    unpack,
)


def make_pool(
    slots: int = 4, slot_nbytes: int = 8192, credits: int = 2
) -> tuple[PoolWriter, PoolReader, SharedMemory, PoolLayout]:
    layout = PoolLayout(slots, slot_nbytes)
    memory = layout.create()
    writer = PoolWriter(layout, memory, epoch=1, credits_per_request=credits)
    return writer, PoolReader(layout, memory), memory, layout


def test_an_array_written_is_read_back_in_place() -> None:
    writer, reader, memory, _ = make_pool()
    array = np.arange(1500, dtype=np.float32).reshape(50, 30)
    view = reader.view(writer.write("a", array))
    assert np.array_equal(view, array)
    assert np.shares_memory(view, np.frombuffer(memory.map, np.uint8))


def test_a_view_cannot_be_written_to() -> None:
    writer, reader, _, _ = make_pool()
    view = reader.view(writer.write("a", np.zeros(10, np.int16)))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_a_request_holds_at_most_its_credits_and_leaves_the_others_theirs() -> None:
    writer, _, _, _ = make_pool(slots=4, credits=2)
    for _ in range(2):
        writer.write("greedy", np.zeros(8, np.int16))
    assert not writer.has_credit("greedy")
    assert writer.has_credit("modest")


def test_a_released_slot_gives_its_credit_back() -> None:
    writer, _, _, _ = make_pool(credits=1)
    lease = writer.write("a", np.zeros(8, np.int16))
    assert not writer.has_credit("a")
    writer.release(lease)
    assert writer.has_credit("a")
    assert writer.free == 4


def test_a_lease_is_stale_once_its_slot_has_been_lent_again() -> None:
    writer, reader, _, _ = make_pool(slots=1)
    old = writer.write("a", np.zeros(8, np.int16))
    writer.release(old)
    writer.write("b", np.ones(8, np.int16))
    with pytest.raises(StaleLease):
        reader.view(old)
    with pytest.raises(StaleLease):
        writer.release(old)


def test_a_slot_released_twice_is_lent_once() -> None:
    writer, _, _, _ = make_pool(slots=2)
    lease = writer.write("a", np.zeros(8, np.int16))
    writer.release(lease)
    with pytest.raises(StaleLease):
        writer.release(lease)
    assert writer.free == 2


def test_an_orphaned_slot_stays_lent_until_its_consumer_lets_go() -> None:
    writer, _, _, _ = make_pool(slots=1)
    lease = writer.write("a", np.zeros(8, np.int16))
    writer.orphan("a")
    assert not writer.has_credit("b")
    writer.release(lease)
    assert writer.has_credit("b")


def test_a_new_producer_does_not_touch_what_consumers_still_read() -> None:
    writer, reader, memory, layout = make_pool(slots=2)
    held = writer.write("a", np.full(8, 7, np.int16))
    successor = PoolWriter(layout, memory, epoch=2, credits_per_request=2, borrowed=(held,))
    assert successor.free == 1
    successor.write("b", np.zeros(8, np.int16))
    assert reader.view(held)[0] == 7
    successor.release(held)
    assert successor.free == 1


def test_a_lease_of_an_earlier_epoch_is_stale() -> None:
    writer, reader, memory, layout = make_pool(slots=1)
    old = writer.write("a", np.zeros(8, np.int16))
    PoolWriter(layout, memory, epoch=2, credits_per_request=2).write("b", np.zeros(8, np.int16))
    with pytest.raises(StaleLease):
        reader.view(old)


def test_an_array_that_does_not_fit_is_refused() -> None:
    writer, _, _, _ = make_pool(slot_nbytes=4096)
    with pytest.raises(ValueError, match="do not fit"):
        writer.write("a", np.zeros(5000, np.uint8))
    assert writer.free == 4


@given(rows=st.integers(1, 400), columns=st.integers(1, 64), slot_nbytes=st.integers(512, 20_000))
def test_parts_fit_their_slots_and_join_to_the_whole(
    rows: int, columns: int, slot_nbytes: int
) -> None:
    array = np.random.default_rng(rows).random((rows, columns), np.float32)
    parts = cut(array, slot_nbytes)
    assert all(part.nbytes <= max(slot_nbytes, INLINE_NBYTES) for part in parts)
    assert np.array_equal(np.concatenate(parts), array)


def test_a_row_larger_than_a_slot_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not fit a slot"):
        cut(np.zeros((2, 4096), np.float32), 8192)


def test_an_inline_payload_unpacks_to_its_array() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    unpacked = unpack(inline(array), None)
    assert unpacked is not None
    assert np.array_equal(unpacked, array)
    assert unpack(None, None) is None


def test_a_lease_over_a_link_without_pool_is_an_error() -> None:
    with pytest.raises(StaleLease, match="no pool"):
        unpack(Lease(0, 1, 1, "<i2", (4,)), None)
