"""A link between two stages, as the server sees it: who holds which slot of its pool.

The server is the hub of all leases. It never looks at the payload of a lease it passes on, but it
knows the holder of every slot, so that a slot comes back when its holder dies.
"""

from __future__ import annotations

from collections.abc import Callable

from pipeline.control import PoolPort
from pipeline.memory import SharedMemory
from pipeline.pool import Lease, Payload, PoolLayout, PoolReader, unpack
from pipeline.stage import Array

SERVER = "server"


class Link:
    """The pool of one link and the holder of each slot that is lent.

    `tell_producer` is called with each lease that has come back. devices: see `PoolPort`.
    """

    def __init__(
        self, name: str, slots: int, slot_nbytes: int, devices: tuple[int, int] | None = None
    ) -> None:
        self.name = name
        self.devices = devices
        self.layout = PoolLayout(slots, slot_nbytes)
        self.memory: SharedMemory = self.layout.create()
        self.tell_producer: Callable[[Lease], None] = lambda lease: None
        self._reader = PoolReader(self.layout, self.memory)
        self._holders: dict[int, tuple[Lease, str]] = {}

    @property
    def port(self) -> PoolPort:
        """What a worker needs to map the pool."""
        return PoolPort(self.layout, self.memory.fd, self.devices)

    @property
    def lent(self) -> tuple[Lease, ...]:
        """Every lease that has not come back."""
        return tuple(lease for lease, _ in self._holders.values())

    def hold(self, payload: Payload | None, holder: str = SERVER) -> None:
        """Note who has the slot now."""
        if isinstance(payload, Lease):
            self._holders[payload.slot] = (payload, holder)

    def release(self, payload: Payload | None) -> None:
        """Give a slot back to its producer. Releasing twice, or an inline payload, does nothing."""
        if isinstance(payload, Lease) and self._holders.get(payload.slot, (None,))[0] == payload:
            del self._holders[payload.slot]
            self.tell_producer(payload)

    def release_all(self, holder: str) -> None:
        """The holder has died: its slots come back."""
        for lease, owner in list(self._holders.values()):
            if owner == holder:
                self.release(lease)

    def view(self, payload: Payload) -> Array:
        """The payload in place, for the server as the last consumer."""
        array = unpack(payload, self._reader)
        assert array is not None
        return array

    def close(self) -> None:
        """Close the memory's descriptor."""
        self.memory.close()
