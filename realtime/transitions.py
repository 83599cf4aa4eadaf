"""The life of a reply: its states, what moves it between them, and nothing else.

HELD is a reply that the client has not been told of. It waits for words to answer, and is the place
of everything speculative: `response.created` is sent by ANNOUNCE, so what is dropped before that
leaves no trace on the wire.
"""

from __future__ import annotations

from enum import StrEnum


class ReplyState(StrEnum):
    """Where a reply is."""

    HELD = "held"
    WAITING = "waiting"  # announced; what it answers is still being transcribed
    RUNNING = "running"  # the cascade works on it
    PAUSED = "paused"  # the same, but nothing of it is told: the user may be interrupting
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    CANCELLED = "cancelled"
    FAILED = "failed"
    DROPPED = "dropped"  # ended unannounced


class ReplyTrigger(StrEnum):
    """What happens to a reply."""

    ANNOUNCE = "announce"
    DROP = "drop"
    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    FINISH = "finish"
    RUN_OUT = "run_out"  # of tokens
    CANCEL = "cancel"
    FAIL = "fail"


TRANSITIONS: dict[tuple[ReplyState, ReplyTrigger], ReplyState] = {
    (ReplyState.HELD, ReplyTrigger.ANNOUNCE): ReplyState.WAITING,
    (ReplyState.HELD, ReplyTrigger.DROP): ReplyState.DROPPED,
    (ReplyState.WAITING, ReplyTrigger.START): ReplyState.RUNNING,
    (ReplyState.WAITING, ReplyTrigger.CANCEL): ReplyState.CANCELLED,
    (ReplyState.WAITING, ReplyTrigger.FAIL): ReplyState.FAILED,
    (ReplyState.RUNNING, ReplyTrigger.PAUSE): ReplyState.PAUSED,
    (ReplyState.PAUSED, ReplyTrigger.RESUME): ReplyState.RUNNING,
    (ReplyState.PAUSED, ReplyTrigger.CANCEL): ReplyState.CANCELLED,
    (ReplyState.PAUSED, ReplyTrigger.FAIL): ReplyState.FAILED,
    (ReplyState.RUNNING, ReplyTrigger.FINISH): ReplyState.COMPLETED,
    (ReplyState.RUNNING, ReplyTrigger.RUN_OUT): ReplyState.INCOMPLETE,
    (ReplyState.RUNNING, ReplyTrigger.CANCEL): ReplyState.CANCELLED,
    (ReplyState.RUNNING, ReplyTrigger.FAIL): ReplyState.FAILED,
}

ENDED = frozenset(
    {
        ReplyState.COMPLETED,
        ReplyState.INCOMPLETE,
        ReplyState.CANCELLED,
        ReplyState.FAILED,
        ReplyState.DROPPED,
    }
)


class InvalidTransition(Exception):
    """This cannot happen to a reply in this state. Nothing has changed."""

    def __init__(self, state: ReplyState, trigger: ReplyTrigger) -> None:
        super().__init__(f"a reply that is {state} cannot {trigger}")
        self.state = state
        self.trigger = trigger


def advance(state: ReplyState, trigger: ReplyTrigger) -> ReplyState:
    """The next state. Raises InvalidTransition."""
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise InvalidTransition(state, trigger) from None
