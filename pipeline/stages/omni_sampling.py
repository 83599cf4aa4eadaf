"""How a token is picked from scores, reproducibly for each request."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Picking:
    """temperature: 0 picks the likeliest. top_k: 0 for all. repetition_penalty: of ids seen."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0


def pick(
    scores: torch.Tensor, how: Picking, generator: torch.Generator, seen: set[int] | None = None
) -> int:
    """A token from scores [vocabulary]. seen: ids that the repetition penalty is for."""
    scores = scores.float()
    if seen and how.repetition_penalty != 1.0:
        ids = torch.tensor(sorted(seen), device=scores.device)
        values = scores[ids]
        scaled = torch.where(
            values < 0, values * how.repetition_penalty, values / how.repetition_penalty
        )
        scores = scores.index_put((ids,), scaled)
    if how.temperature <= 0.0:
        return int(scores.argmax())
    scores = scores / how.temperature
    if how.top_k and how.top_k < len(scores):
        least = torch.topk(scores, how.top_k).values[-1]
        scores = scores.masked_fill(scores < least, float("-inf"))
    chances = torch.softmax(scores, dim=-1)
    if how.top_p < 1.0:
        ordered, order = torch.sort(chances, descending=True)
        # The first token that goes over the sum is still in.
        beyond = ordered.cumsum(-1) - ordered > how.top_p
        chances = chances.index_fill(0, order[beyond], 0.0)
    picked = torch.multinomial(chances.cpu(), 1, generator=generator)
    return int(picked)
