"""What the server sends."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from pydantic import Field, TypeAdapter

from realtime.protocol.config import EffectiveSession
from realtime.protocol.items import AnyItem
from realtime.protocol.responses import Response
from realtime.protocol.transcription import EffectiveTranscriptionSession
from realtime.protocol.wire import Wire, absent


class _ServerEvent(Wire):
    type: str  # first in the frame, where people look for it
    event_id: str


# -- session and errors ----------------------------------------------------------------------------


class SessionCreated(_ServerEvent):
    """The first event on every socket."""

    type: Literal["session.created"] = "session.created"
    session: EffectiveSession | EffectiveTranscriptionSession


class SessionUpdated(_ServerEvent):
    """The whole session after an update."""

    type: Literal["session.updated"] = "session.updated"
    session: EffectiveSession | EffectiveTranscriptionSession


class ErrorBody(Wire):
    """What was wrong. event_id: the client's id of the event at fault."""

    type: str
    code: str | None = None
    message: str
    param: str | None = None
    event_id: str | None = None


class Error(_ServerEvent):
    """An event of the client changed nothing, or the server is at fault."""

    type: Literal["error"] = "error"
    error: ErrorBody


# -- input audio buffer ----------------------------------------------------------------------------


class SpeechStarted(_ServerEvent):
    """audio_start_ms: of all audio received, prefix padding included."""

    type: Literal["input_audio_buffer.speech_started"] = "input_audio_buffer.speech_started"
    audio_start_ms: int
    item_id: str


class SpeechStopped(_ServerEvent):
    """audio_end_ms: of all audio received, trailing silence included."""

    type: Literal["input_audio_buffer.speech_stopped"] = "input_audio_buffer.speech_stopped"
    audio_end_ms: int
    item_id: str


class SpeechDismissed(_ServerEvent):
    """An extension, for sessions with `keeps_buffer`: what was announced by `speech_started` was no
    turn, and there will be no item. Playback goes on where it was paused.
    """

    type: Literal["sori.speech_dismissed"] = "sori.speech_dismissed"
    item_id: str


class Committed(_ServerEvent):
    """The buffer has become an item."""

    type: Literal["input_audio_buffer.committed"] = "input_audio_buffer.committed"
    previous_item_id: str | None
    item_id: str


class TimeoutTriggered(_ServerEvent):
    """After `idle_timeout_ms` without speech: the silence becomes an item, and is answered."""

    type: Literal["input_audio_buffer.timeout_triggered"] = "input_audio_buffer.timeout_triggered"
    audio_start_ms: int
    audio_end_ms: int
    item_id: str


class Cleared(_ServerEvent):
    """The buffer is empty."""

    type: Literal["input_audio_buffer.cleared"] = "input_audio_buffer.cleared"


# -- conversation ----------------------------------------------------------------------------------


class _ItemEvent(_ServerEvent):
    previous_item_id: str | None = None
    item: AnyItem


class ItemAdded(_ItemEvent):
    """An item has its place in the conversation."""

    type: Literal["conversation.item.added"] = "conversation.item.added"


class ItemDone(_ItemEvent):
    """An item is whole."""

    type: Literal["conversation.item.done"] = "conversation.item.done"


class ItemRetrieved(_ServerEvent):
    """An item as it is now."""

    type: Literal["conversation.item.retrieved"] = "conversation.item.retrieved"
    item: AnyItem


class ItemDeleted(_ServerEvent):
    """An item is gone."""

    type: Literal["conversation.item.deleted"] = "conversation.item.deleted"
    item_id: str


class ItemTruncated(_ServerEvent):
    """audio_end_ms: as asked, at most what the item has."""

    type: Literal["conversation.item.truncated"] = "conversation.item.truncated"
    item_id: str
    content_index: int
    audio_end_ms: int


class TranscriptionDelta(_ServerEvent):
    """More of what the user said."""

    type: Literal["conversation.item.input_audio_transcription.delta"] = (
        "conversation.item.input_audio_transcription.delta"
    )
    item_id: str
    content_index: int = 0
    delta: str


class DurationUsage(Wire):
    """Audio transcribed, in seconds."""

    type: Literal["duration"] = "duration"
    seconds: float


class Logprob(Wire):
    """How sure the Transcriber was of a token: the natural logarithm of its probability."""

    token: str
    bytes: tuple[int, ...]
    logprob: float


class TranscriptionCompleted(_ServerEvent):
    """All of what the user said."""

    type: Literal["conversation.item.input_audio_transcription.completed"] = (
        "conversation.item.input_audio_transcription.completed"
    )
    item_id: str
    content_index: int = 0
    transcript: str
    usage: DurationUsage
    logprobs: tuple[Logprob, ...] | None = Field(None, exclude_if=absent)


class TranscriptionError(Wire):
    """Why there is no transcript."""

    type: str
    code: str
    message: str


class TranscriptionFailed(_ServerEvent):
    """What the user said is not known."""

    type: Literal["conversation.item.input_audio_transcription.failed"] = (
        "conversation.item.input_audio_transcription.failed"
    )
    item_id: str
    content_index: int = 0
    error: TranscriptionError


# -- responses -------------------------------------------------------------------------------------


class ResponseCreated(_ServerEvent):
    """A response has begun."""

    type: Literal["response.created"] = "response.created"
    response: Response


class ResponseDone(_ServerEvent):
    """A response has ended, one way or the other."""

    type: Literal["response.done"] = "response.done"
    response: Response


class RateLimit(Wire):
    """How much may still be asked for."""

    name: Literal["requests", "tokens"]
    limit: int
    remaining: int
    reset_seconds: float


class RateLimitsUpdated(_ServerEvent):
    """After each response. This server has no such limits, so the list is empty."""

    type: Literal["rate_limits.updated"] = "rate_limits.updated"
    rate_limits: tuple[RateLimit, ...] = ()


class _OutputItemEvent(_ServerEvent):
    response_id: str
    output_index: int
    item: AnyItem


class OutputItemAdded(_OutputItemEvent):
    """The response has one more item."""

    type: Literal["response.output_item.added"] = "response.output_item.added"


class OutputItemDone(_OutputItemEvent):
    """An item of the response is whole."""

    type: Literal["response.output_item.done"] = "response.output_item.done"


class TextPart(Wire):
    """Part of a written message."""

    type: Literal["text"] = "text"
    text: str = ""


class AudioPart(Wire):
    """Part of a spoken message."""

    type: Literal["audio"] = "audio"
    transcript: str = ""


class _InItem(_ServerEvent):
    response_id: str
    item_id: str
    output_index: int


class _InContent(_InItem):
    content_index: int = 0


class InContentFields(TypedDict):
    """The fields that all events inside a part share."""

    event_id: str
    response_id: str
    item_id: str
    output_index: int


class ContentPartAdded(_InContent):
    """An item has one more part."""

    type: Literal["response.content_part.added"] = "response.content_part.added"
    part: TextPart | AudioPart


class ContentPartDone(_InContent):
    """A part is whole."""

    type: Literal["response.content_part.done"] = "response.content_part.done"
    part: TextPart | AudioPart


class OutputTextDelta(_InContent):
    """More text."""

    type: Literal["response.output_text.delta"] = "response.output_text.delta"
    delta: str


class OutputTextDone(_InContent):
    """All text."""

    type: Literal["response.output_text.done"] = "response.output_text.done"
    text: str


class SpokenAt(Wire):
    """An extension: where in the item's audio a text is spoken."""

    start_ms: int
    end_ms: int


class OutputAudioTranscriptDelta(_InContent):
    """More of what is spoken, as text."""

    type: Literal["response.output_audio_transcript.delta"] = (
        "response.output_audio_transcript.delta"
    )
    delta: str
    sori: SpokenAt | None = Field(None, exclude_if=absent)


class OutputAudioTranscriptDone(_InContent):
    """All of what is spoken, as text."""

    type: Literal["response.output_audio_transcript.done"] = "response.output_audio_transcript.done"
    transcript: str


class OutputAudioDelta(_InContent):
    """More audio: base64, in the response's output format."""

    type: Literal["response.output_audio.delta"] = "response.output_audio.delta"
    delta: str


class OutputAudioDone(_InContent):
    """No more audio."""

    type: Literal["response.output_audio.done"] = "response.output_audio.done"


class FunctionCallArgumentsDelta(_InItem):
    """More of a call's arguments."""

    type: Literal["response.function_call_arguments.delta"] = (
        "response.function_call_arguments.delta"
    )
    call_id: str
    delta: str


class FunctionCallArgumentsDone(_InItem):
    """All of a call's arguments."""

    type: Literal["response.function_call_arguments.done"] = "response.function_call_arguments.done"
    call_id: str
    name: str
    arguments: str


ServerEvent = (
    SessionCreated
    | SessionUpdated
    | Error
    | SpeechStarted
    | SpeechStopped
    | SpeechDismissed
    | Committed
    | TimeoutTriggered
    | Cleared
    | ItemAdded
    | ItemDone
    | ItemRetrieved
    | ItemDeleted
    | ItemTruncated
    | TranscriptionDelta
    | TranscriptionCompleted
    | TranscriptionFailed
    | ResponseCreated
    | ResponseDone
    | RateLimitsUpdated
    | OutputItemAdded
    | OutputItemDone
    | ContentPartAdded
    | ContentPartDone
    | OutputTextDelta
    | OutputTextDone
    | OutputAudioTranscriptDelta
    | OutputAudioTranscriptDone
    | OutputAudioDelta
    | OutputAudioDone
    | FunctionCallArgumentsDelta
    | FunctionCallArgumentsDone
)

server_events: TypeAdapter[ServerEvent] = TypeAdapter(
    Annotated[ServerEvent, Field(discriminator="type")]
)


def dump_event(event: ServerEvent) -> str:
    """One text frame."""
    return event.model_dump_json()
