"""What a Session has to say and to ask for, until its driver takes it."""

from __future__ import annotations

from collections.abc import Callable

from realtime.commands import Command
from realtime.protocol.server import ServerEvent

NewId = Callable[[str], str]
"""Makes an id that is new, from a prefix: `item` gives `item_…`."""


class Outgoing:
    """Events and commands in order. The driver drains it after everything that it hands in."""

    def __init__(self, new_id: NewId) -> None:
        self.new_id = new_id
        self._events: list[ServerEvent] = []
        self._commands: list[Command] = []

    def event_id(self) -> str:
        """The id of the next event."""
        return self.new_id("event")

    def say(self, event: ServerEvent) -> None:
        """Send an event to the client."""
        self._events.append(event)

    def ask(self, command: Command) -> None:
        """Have the driver do something."""
        self._commands.append(command)

    def take_events(self) -> list[ServerEvent]:
        """All events since the last call."""
        events, self._events = self._events, []
        return events

    def take_commands(self) -> list[Command]:
        """All commands since the last call."""
        commands, self._commands = self._commands, []
        return commands
