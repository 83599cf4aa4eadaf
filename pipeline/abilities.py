"""What a request may ask for and not every model can do: told before the request is run."""

from __future__ import annotations

from enum import StrEnum


class Ability(StrEnum):
    """Of a model behind the Thinker or the Talker."""

    CALLS = "calls"
    """Function calls."""

    SHAPES = "shapes"
    """JSON of a schema, penalties and biases of tokens, and their log-probabilities."""

    READS = "reads"
    """A given text is spoken, word for word."""

    PACES = "paces"
    """Speech faster or slower than the voice's own."""
