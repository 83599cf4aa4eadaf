"""The server's ledger of who holds which slot."""

from __future__ import annotations

import numpy as np

from pipeline.links import Link
from pipeline.pool import Lease, PoolWriter, inline


def make_link() -> tuple[Link, PoolWriter, list[Lease]]:
    link = Link("a-b", 4, 4096)
    returned: list[Lease] = []
    link.tell_producer = returned.append
    return link, PoolWriter(link.layout, link.memory, 1, 4), returned


def test_a_slot_comes_back_to_its_producer_once() -> None:
    link, writer, returned = make_link()
    lease = writer.write("r", np.arange(4))
    link.hold(lease)
    assert np.array_equal(link.view(lease), np.arange(4))
    link.release(lease)
    link.release(lease)
    assert returned == [lease]
    assert link.lent == ()
    link.close()


def test_inline_payloads_are_nobodys_to_return() -> None:
    link, _, returned = make_link()
    link.hold(inline(np.arange(4)))
    link.release(inline(np.arange(4)))
    link.release(None)
    assert returned == []
    link.close()


def test_what_a_dead_consumer_held_comes_back_and_the_rest_stays() -> None:
    link, writer, returned = make_link()
    queued, read = writer.write("r", np.arange(4)), writer.write("r", np.arange(4))
    link.hold(queued)
    link.hold(read, holder="consumer")
    link.release_all("consumer")
    assert returned == [read]
    assert link.lent == (queued,)
    link.close()
