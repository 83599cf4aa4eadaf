"""What a client did wrong, as values. Each becomes one `error` event and changes nothing else."""

from __future__ import annotations

from audio.formats import samples_to_ms
from pipeline.messages import INPUT_RATE_HZ

MAX_MESSAGE_CHARS = 1000


class ClientError(Exception):
    """A client's event cannot be honoured.

    code: stable and machine readable. param: dotted path of the field at fault. event_id: the
    client's own id of the event. What a client wrote stands in both, so that both are cut.
    """

    type = "invalid_request_error"

    def __init__(
        self,
        code: str | None,
        message: str,
        param: str | None = None,
        event_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = _cut(message)
        self.param = _cut(param) if param is not None else None
        self.event_id = event_id


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 3] + "..."


class ServerFault(ClientError):
    """The same event, for what is nobody's fault but the server's."""

    type = "server_error"

    def __init__(self, message: str, event_id: str | None = None) -> None:
        super().__init__(None, message, event_id=event_id)


def active_response(response_id: str) -> ClientError:
    """A second response into the conversation while one runs."""
    return ClientError(
        "conversation_already_has_active_response",
        f"Conversation already has an active response in progress: {response_id}. "
        "Wait until the response is finished before creating a new one.",
    )


def nothing_to_cancel() -> ClientError:
    """A cancel that came too late, or for a response that never was."""
    return ClientError(
        "response_cancel_not_active", "Cancellation failed: no active response found"
    )


def commit_too_short(samples: int) -> ClientError:
    """samples: what the buffer holds, at 16 kHz."""
    held_ms = samples / INPUT_RATE_HZ * 1000
    return ClientError(
        "input_audio_buffer_commit_empty",
        "Error committing input audio buffer: buffer too small. Expected at least 100ms of "
        f"audio, but buffer only has {held_ms:.2f}ms of audio.",
    )


def buffer_full(max_samples: int) -> ClientError:
    """An append beyond what the buffer may hold; max_samples at 16 kHz."""
    limit_ms = samples_to_ms(max_samples, INPUT_RATE_HZ)
    return ClientError(
        "input_audio_buffer_full",
        f"The input audio buffer is full: it holds at most {limit_ms}ms of uncommitted audio.",
    )


def duplicate_item(item_id: str) -> ClientError:
    """A client chose an id that is taken."""
    return ClientError(
        "item_create_duplicate_item_id",
        f"Error adding item: an item with id '{item_id}' already exists.",
    )


def reserved_item(item_id: str) -> ClientError:
    """A client chose an id that means a place."""
    return ClientError(
        "invalid_value",
        f"Invalid value for 'item.id': '{item_id}' stands for the front of the conversation.",
        "item.id",
    )


def no_previous_item(item_id: str) -> ClientError:
    """An insert after an item that is not there."""
    return ClientError(
        "item_create_invalid_previous_item_id",
        f"Error adding item: the previous item with id '{item_id}' does not exist.",
        "previous_item_id",
    )


def no_such_item(verb: str, item_id: str) -> ClientError:
    """verb: retrieve, delete or truncate."""
    doing = verb.removesuffix("e") + "ing"
    return ClientError(
        f"item_{verb}_invalid_item_id",
        f"Error {doing} item: the item with id '{item_id}' does not exist.",
        "item_id",
    )


def no_such_content(content_index: int) -> ClientError:
    """A truncate of a part beyond the only one that a spoken message has."""
    return ClientError(
        "invalid_value",
        f"Invalid value for 'content_index': a spoken message has one part, 0 (got "
        f"{content_index}).",
        "content_index",
    )


def not_truncatable() -> ClientError:
    """Only what was spoken can be cut."""
    return ClientError(
        "unsupported_content_type",
        "Only model output audio messages can be truncated",
        "item_id",
    )


def unknown_call(call_id: str, param: str) -> ClientError:
    """The output of a call that nobody made."""
    return ClientError(
        "invalid_value", f"Tool call ID '{call_id}' not found in conversation.", param
    )


def locked_voice() -> ClientError:
    """A voice cannot change once it has been heard."""
    return ClientError(
        "cannot_update_voice",
        "Cannot update a conversation's voice if assistant audio is present.",
    )


def no_images(param: str) -> ClientError:
    """The Thinker is blind."""
    return ClientError(
        "unsupported_content_type",
        f"'{param}' is an image, and this server's model cannot see images.",
        param,
    )


def no_calls(param: str) -> ClientError:
    """The Thinker calls no functions."""
    return ClientError("unsupported_value", "This server's model does not call functions.", param)


def no_pace(param: str) -> ClientError:
    """The Talker has one pace."""
    return ClientError(
        "unsupported_value", "This server's model speaks at its own pace: 'speed' must be 1.", param
    )


def invalid_audio(encoding: str, param: str = "audio", event_id: str | None = None) -> ClientError:
    """Bytes that are not base64, or not audio. encoding: in words, as `mono PCM16 at 24kHz`."""
    return ClientError(
        "invalid_value",
        f"Invalid '{param}'. Expected base64-encoded audio bytes ({encoding}) but got an "
        "invalid value.",
        param,
        event_id,
    )
