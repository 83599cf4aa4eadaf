"""Keeps prompts inside the model's context by dropping the oldest turns.

llama.cpp tells the length of a prompt only when it is asked to run it, so lengths are estimated
from bytes, at the rate that the session's earlier prompts had. What has been dropped stays dropped,
so that the prompts of the next turns begin alike and are found in the cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from pipeline.messages import PromptItem, Retention
from pipeline.stages.llama_prompt import chat_messages

__all__ = ["Window", "Windows"]

SESSIONS = 1024
TOKENS_PER_BYTE = 0.3  # of English, with some room
FRAME_NBYTES = 16  # what the chat template puts around a message
AUTO = Retention()
KEEP = 0.75  # of the context, when something must be dropped: the next turns then fit as well


class Window:
    """What is known of one session. `tokens`: the context, reply included."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._tokens_per_byte = TOKENS_PER_BYTE
        self._dropped = 0

    def fit(
        self, items: Sequence[PromptItem], room: int, retention: Retention = AUTO
    ) -> list[PromptItem]:
        """The items that should leave `room` tokens for the reply.

        System items and the last item always stay, so the result may still be too long; it is if
        nothing may be dropped.
        """
        if not retention.drop:
            return list(items)
        sizes = [_nbytes([item]) * self._tokens_per_byte for item in items]
        limit = float(self._tokens - room)
        if retention.max_tokens is not None:
            instructions = sizes[0] if items and items[0].role == "system" else 0.0
            limit = min(limit, instructions + retention.max_tokens)
        keep = KEEP if retention.ratio is None else retention.ratio
        turns = [i for i, item in enumerate(items[:-1]) if item.role != "system"]
        size = sum(sizes)
        count = min(self._dropped, len(turns))
        left = size - sum(sizes[i] for i in turns[:count])
        if left < limit * min(keep, 0.5):  # the conversation is not the one it was
            count, left = 0, size
        if left > limit:
            while count < len(turns) and left > limit * keep:
                left -= sizes[turns[count]]
                count += 1
            while count < len(turns) and items[turns[count]].role != "user":
                count += 1
        self._dropped = count
        dropped = set(turns[:count])
        return [item for i, item in enumerate(items) if i not in dropped]

    def learn(self, items: Sequence[PromptItem], tokens: int) -> None:
        """These items were a prompt of `tokens`."""
        self._tokens_per_byte = tokens / max(sum(_nbytes([item]) for item in items), 1)


class Windows:
    """The windows of the last sessions. Safe to call from any thread."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._windows: OrderedDict[str, Window] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, session_id: str) -> Window:
        """The session's window; a new one for a request without a session."""
        if not session_id:
            return Window(self._tokens)
        with self._lock:
            window = self._windows.pop(session_id, None) or Window(self._tokens)
            self._windows[session_id] = window
            if len(self._windows) > SESSIONS:
                self._windows.popitem(last=False)
            return window


def _nbytes(items: Sequence[PromptItem]) -> int:
    return sum(len(m["content"].encode()) + FRAME_NBYTES for m in chat_messages(items))
