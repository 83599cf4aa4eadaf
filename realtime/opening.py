"""How a connection was opened: what its handshake says about the session and the dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from realtime.protocol import beta


@dataclass(frozen=True, slots=True)
class Opening:
    """model: as asked for. session: the configuration that a client secret carries."""

    model: str | None = None
    transcribes: bool = False
    in_beta: bool = False
    session: Mapping[str, Any] | None = None


def opening_of(
    query: Mapping[str, str],
    headers: Mapping[str, str],
    subprotocols: Sequence[str],
    session: Mapping[str, Any] | None = None,
) -> Opening:
    """Read a handshake. `model` beside `intent=transcription` names the Transcriber's model."""
    carried = session or {}
    return Opening(
        model=query.get("model") or carried.get("model"),
        transcribes="transcription" in (query.get("intent"), carried.get("type")),
        in_beta=beta.HEADER_VALUE in headers.get(beta.HEADER, "").replace(" ", "").split(",")
        or beta.SUBPROTOCOL in subprotocols,
        session=session,
    )
