"""The wire protocol: every event as a pydantic model."""

from realtime.protocol.client import ClientEvent, InputAudioBufferAppend
from realtime.protocol.parsing import parse_event
from realtime.protocol.server import ServerEvent, dump_event

__all__ = ["ClientEvent", "InputAudioBufferAppend", "ServerEvent", "dump_event", "parse_event"]
