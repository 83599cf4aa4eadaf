"""Which dialect of the protocol a connection speaks: frames in, events out, and the way back."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json, to_json

from realtime.errors import ClientError
from realtime.protocol import beta
from realtime.protocol.client import ClientEvent, SessionUpdate
from realtime.protocol.parsing import parse_event
from realtime.protocol.server import ServerEvent, dump_event


class Dialect:
    """Today's protocol, or the beta's. The shape of each `session.update` decides anew.

    in_beta: what the client has asked for when it connected.
    """

    def __init__(self, *, in_beta: bool = False) -> None:
        self.in_beta = in_beta
        self._temperature = beta.DEFAULT_TEMPERATURE

    def parse(self, frame: str) -> ClientEvent:
        """Read one frame. Raises ClientError."""
        if not self.in_beta:
            event = parse_event(frame)
            if not isinstance(event, SessionUpdate) or not beta.is_beta_session(event.session):
                return event
        elif not any(kind in frame for kind in beta.TRANSLATED):
            return parse_event(frame)
        return self._parse_beta(frame)

    def _parse_beta(self, frame: str) -> ClientEvent:
        try:
            document = from_json(frame)
        except ValueError:
            return parse_event(frame)  # says what is wrong with it
        if not isinstance(document, dict):
            return parse_event(frame)
        try:
            translated = beta.client_event(document)
            event = parse_event(translated)
        except ClientError as error:
            if error.event_id is None and isinstance(document.get("event_id"), str):
                error.event_id = document["event_id"]
            raise
        if isinstance(event, SessionUpdate):
            self._follow(document["session"])
        return event

    def _follow(self, session: dict[str, Any]) -> None:
        self.in_beta = "type" not in session
        self._temperature = session.get("temperature") or self._temperature

    def dump(self, event: ServerEvent, conversation_id: str) -> list[str]:
        """The frames that tell of an event."""
        if not self.in_beta:
            return [dump_event(event)]
        document = beta.server_event(event.model_dump(mode="json"), self._temperature)
        frames = [] if document is None else [to_json(document).decode()]
        if event.type == "session.created":
            created = {
                "type": "conversation.created",
                "event_id": f"{event.event_id}_c",
                "conversation": {"id": conversation_id, "object": "realtime.conversation"},
            }
            frames.append(to_json(created).decode())
        return frames
