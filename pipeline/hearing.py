"""The server's own end of a pool: audio on its way to the stages that judge whole utterances."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.links import Link
from pipeline.messages import Audio, End, Picture
from pipeline.pool import Lease, PoolWriter, cut
from pipeline.port import Port


class HearingPool:
    """Feeds one utterance after the other; one that finds no slot waits its turn."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._writer = PoolWriter(
            link.layout, link.memory, epoch=1, credits_per_request=link.layout.slots
        )
        self._turn = asyncio.Lock()
        self._returned = asyncio.Event()
        link.tell_producer = self._take_back

    async def feed(
        self,
        port: Port,
        samples: NDArray[np.int16],
        pictures: Sequence[NDArray[np.uint8]] = (),
    ) -> None:
        """Hand 16 kHz mono int16 samples to the port, then RGB pictures [h, w, 3], then End."""
        async with self._turn:
            await self._hand_over(port, samples, Audio)
            for picture in pictures:
                rows = np.ascontiguousarray(picture).reshape(len(picture), -1)
                await self._hand_over(port, rows, Picture)
        await port.feed(End())

    async def _hand_over(
        self, port: Port, array: NDArray[Any], kind: type[Audio] | type[Picture]
    ) -> None:
        parts = cut(array, self._link.layout.slot_nbytes) if len(array) else []
        for part, piece in enumerate(parts):
            while not self._writer.has_credit(port.request_id):
                self._returned.clear()
                await self._returned.wait()
            lease = self._writer.write(port.request_id, piece)
            self._link.hold(lease)
            await port.feed(kind(len(piece)), lease, part, len(parts))

    def _take_back(self, lease: Lease) -> None:
        self._writer.release(lease)
        self._returned.set()
