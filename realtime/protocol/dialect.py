"""Which dialect of the protocol a connection speaks: frames in, events out, and the way back."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json, to_json

from realtime.errors import ClientError
from realtime.protocol import beta
from realtime.protocol.client import ClientEvent, SessionUpdate
from realtime.protocol.parsing import event_id_of, parse_event
from realtime.protocol.server import ServerEvent, dump_event


class Dialect:
    """Today's protocol, or the beta's. The shape of each `session.update` decides anew.

    in_beta: what the client has asked for when it connected. An update that is refused changes
    nothing, so not the dialect either; only its error is in the update's words.
    """

    def __init__(self, *, in_beta: bool = False) -> None:
        self.in_beta = in_beta
        self._temperature = beta.DEFAULT_TEMPERATURE
        self._asked: tuple[bool, float] | None = None  # both, by an update not answered yet

    def parse(self, frame: str) -> ClientEvent:
        """Read one frame. Raises ClientError."""
        self._asked = None
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
            error.event_id = error.event_id or event_id_of(document)
            raise
        if isinstance(event, SessionUpdate):
            session: dict[str, Any] = document["session"]
            temperature = session.get("temperature", self._temperature)
            in_beta = "type" not in session or document["type"] != "session.update"
            self._asked = in_beta, temperature or beta.DEFAULT_TEMPERATURE
        return event

    def _is_in_beta(self, event: ServerEvent) -> bool:
        if self._asked is None or event.type not in ("session.updated", "error"):
            return self.in_beta
        (in_beta, temperature), self._asked = self._asked, None
        if event.type == "session.updated":
            self.in_beta, self._temperature = in_beta, temperature
        return in_beta

    def dump(self, event: ServerEvent, conversation_id: str) -> list[str]:
        """The frames that tell of an event."""
        if not self._is_in_beta(event):
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
