"""What a client may send."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field, TypeAdapter

from realtime.protocol.items import Item
from realtime.protocol.responses import ResponseParams
from realtime.protocol.wire import EventId, Index, ItemId, PreviousItemId, Wire


class _ClientEvent(Wire):
    """event_id: the client's own; comes back in the error about this event and nowhere else."""

    event_id: EventId | None = None


class SessionUpdate(_ClientEvent):
    """Change what is given of the session; it is checked as a whole once merged."""

    type: Literal["session.update"] = "session.update"
    session: dict[str, Any]


class InputAudioBufferAppend(_ClientEvent):
    """More of the microphone: base64, in the session's input format."""

    type: Literal["input_audio_buffer.append"] = "input_audio_buffer.append"
    audio: str


class InputAudioBufferCommit(_ClientEvent):
    """The buffer is a turn of the user."""

    type: Literal["input_audio_buffer.commit"] = "input_audio_buffer.commit"


class InputAudioBufferClear(_ClientEvent):
    """Forget the buffer."""

    type: Literal["input_audio_buffer.clear"] = "input_audio_buffer.clear"


class OutputAudioBufferClear(_ClientEvent):
    """Only where the server plays the audio itself, which it does not on a WebSocket."""

    type: Literal["output_audio_buffer.clear"] = "output_audio_buffer.clear"


class ConversationItemCreate(_ClientEvent):
    """Add an item. previous_item_id: None or "" for the end, `root` for the front."""

    type: Literal["conversation.item.create"] = "conversation.item.create"
    previous_item_id: PreviousItemId | None = None
    item: Item


class ConversationItemRetrieve(_ClientEvent):
    """Show an item."""

    type: Literal["conversation.item.retrieve"] = "conversation.item.retrieve"
    item_id: ItemId


class ConversationItemDelete(_ClientEvent):
    """Take an item out of the conversation."""

    type: Literal["conversation.item.delete"] = "conversation.item.delete"
    item_id: ItemId


class ConversationItemTruncate(_ClientEvent):
    """Tell how much of an item the user has heard."""

    type: Literal["conversation.item.truncate"] = "conversation.item.truncate"
    item_id: ItemId
    content_index: Index
    audio_end_ms: Index


class ResponseCreate(_ClientEvent):
    """Answer."""

    type: Literal["response.create"] = "response.create"
    response: ResponseParams | None = None


class ResponseCancel(_ClientEvent):
    """Stop answering."""

    type: Literal["response.cancel"] = "response.cancel"
    response_id: ItemId | None = None


ClientEvent = (
    SessionUpdate
    | InputAudioBufferAppend
    | InputAudioBufferCommit
    | InputAudioBufferClear
    | OutputAudioBufferClear
    | ConversationItemCreate
    | ConversationItemRetrieve
    | ConversationItemDelete
    | ConversationItemTruncate
    | ResponseCreate
    | ResponseCancel
)

CLIENT_EVENT_TYPES: tuple[str, ...] = tuple(
    event.model_fields["type"].default for event in get_args(ClientEvent)
)

# The union itself is no model: see `Wire` for what is cached.
client_events: TypeAdapter[ClientEvent] = TypeAdapter(
    Annotated[ClientEvent, Field(discriminator="type")], config=ConfigDict(cache_strings="keys")
)
