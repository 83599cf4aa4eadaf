"""What can go wrong in the engine, by whose fault.

EngineError
├── StageFailed   one request cannot go on: its stage said so, died, or took too long
└── StartFailed   the engine cannot serve at all: a worker could not be started
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of the engine's errors."""


class StageFailed(EngineError):
    """One request is over. `code` is stable and reaches the client."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StartFailed(EngineError):
    """A worker could not load its stage."""
