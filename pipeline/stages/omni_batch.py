"""Requests of different lengths in one forward pass: their caches, padded to one length.

A request that begins or ends, or sits a step out, makes another batch; while the batch stays the
same its cache is used as it is. Shorter requests are padded on the left, where an attention mask
hides the padding; positions are told, so that it moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.functional import pad
from transformers import DynamicCache


class Member(Protocol):
    """A request with a cache of its own: None while that is part of a batch."""

    cache: Any


@dataclass(slots=True)
class _Batch:
    members: list[Any]
    cache: Any
    lengths: list[int]


class CacheBatch:
    """The caches of one model. A member belongs to one batch at most."""

    def __init__(self) -> None:
        self._batch: _Batch | None = None

    def join(self, members: Sequence[Member]) -> tuple[Any, torch.Tensor | None]:
        """(cache, attention mask) for one more position of each of these, in this order.

        The mask is [members, length + 1], or None if nothing is padded.
        """
        batch = self._batch
        if batch is None or not _same(batch.members, members):
            self.part()
            batch = self._batch = _merge(members)
        longest = max(batch.lengths)
        if min(batch.lengths) == longest:
            return batch.cache, None
        begins = torch.tensor([longest - length for length in batch.lengths])
        mask = (torch.arange(longest + 1) >= begins[:, None]).long()
        return batch.cache, mask

    def advance(self, cache: Any) -> None:
        """The forward pass has added a position to each."""
        assert self._batch is not None
        self._batch.cache = cache
        self._batch.lengths = [length + 1 for length in self._batch.lengths]

    def part(self) -> None:
        """Give every member its own cache back."""
        batch, self._batch = self._batch, None
        if batch is None:
            return
        if len(batch.members) == 1:
            batch.members[0].cache = batch.cache
            return
        longest = max(batch.lengths)
        for row, (member, length) in enumerate(zip(batch.members, batch.lengths, strict=True)):
            own = DynamicCache()
            for index, layer in enumerate(batch.cache.layers):
                keys, values = (
                    tensor[row : row + 1, :, longest - length :].clone()
                    for tensor in (layer.keys, layer.values)
                )
                own.update(keys, values, index)
            member.cache = own

    def drop(self, member: Member) -> None:
        """The request is over."""
        if self._batch is not None and any(one is member for one in self._batch.members):
            self.part()
        member.cache = None


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _merge(members: Sequence[Member]) -> _Batch:
    caches = [member.cache for member in members]
    for member in members:
        member.cache = None
    lengths = [cache.get_seq_length() for cache in caches]
    if len(caches) == 1:
        return _Batch(list(members), caches[0], lengths)
    longest = max(lengths)
    merged = DynamicCache()
    for index in range(len(caches[0].layers)):
        keys, values = (
            torch.cat(
                [
                    pad(getattr(cache.layers[index], name), (0, 0, longest - length, 0))
                    for cache, length in zip(caches, lengths, strict=True)
                ]
            )
            for name in ("keys", "values")
        )
        merged.update(keys, values, index)
    return _Batch(list(members), merged, lengths)
