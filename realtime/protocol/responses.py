"""A response as the client asks for it, and as it is told about it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from realtime.protocol.config import (
    Format,
    FunctionTool,
    MaxOutputTokens,
    Modalities,
    Reasoning,
    ToolChoice,
    Voice,
)
from realtime.protocol.items import AnyItem, InputItem
from realtime.protocol.wire import Wire, absent


def _bounded(metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata) > 16:
        raise ValueError("Expected at most 16 keys.")
    if any(len(key) > 64 or len(value) > 512 for key, value in metadata.items()):
        raise ValueError("Expected keys of at most 64 and values of at most 512 characters.")
    return metadata


Metadata = Annotated[dict[str, str], AfterValidator(_bounded)]

# -- asked for -------------------------------------------------------------------------------------


class AskedOutput(Wire):
    """Sound of this response only."""

    format: Format | None = None
    voice: Voice | None = None


class AskedAudio(Wire):
    """Audio of this response only."""

    output: AskedOutput | None = None


class ResponseParams(Wire):
    """Overrides of the session for one response; what is absent or null is the session's.

    conversation `none`: a response beside the conversation. input: stands for the conversation's
    items; empty is an empty context.
    """

    conversation: Literal["auto", "none"] | None = None
    metadata: Metadata | None = None
    input: tuple[InputItem, ...] | None = None
    instructions: str | None = None
    output_modalities: Modalities | None = None
    audio: AskedAudio | None = None
    tools: tuple[FunctionTool, ...] | None = None
    tool_choice: ToolChoice | None = None
    max_output_tokens: MaxOutputTokens | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    prompt: None = None
    latency_first: bool | None = None


# -- told ------------------------------------------------------------------------------------------

ResponseStatus = Literal["in_progress", "completed", "cancelled", "incomplete", "failed"]


class ResponseError(Wire):
    """Why a response failed."""

    type: str
    code: str
    message: str


class StatusDetails(Wire):
    """Why a response is not completed."""

    type: Literal["cancelled", "incomplete", "failed"]
    reason: (
        Literal["turn_detected", "client_cancelled", "max_output_tokens", "content_filter"] | None
    ) = Field(None, exclude_if=absent)
    error: ResponseError | None = Field(None, exclude_if=absent)


class CachedTokens(Wire):
    """Of the input tokens, those that need not be computed again."""

    text_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0


class InputTokens(Wire):
    """What the model read."""

    text_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0
    cached_tokens: int = 0
    cached_tokens_details: CachedTokens = CachedTokens()


class OutputTokens(Wire):
    """What the model wrote and spoke."""

    text_tokens: int = 0
    audio_tokens: int = 0


class Usage(Wire):
    """Tokens of a response."""

    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    input_token_details: InputTokens = InputTokens()
    output_token_details: OutputTokens = OutputTokens()


class ToldOutput(Wire):
    """Sound of this response."""

    format: Format
    voice: str


class ToldAudio(Wire):
    """Audio of this response."""

    output: ToldOutput


class Timings(Wire):
    """An extension: milliseconds since the reply began, by name.

    revisions: how often the turn went on after work on its reply had begun.
    """

    timings_ms: dict[str, int]
    revisions: int = 0


class Response(Wire):
    """A response in `response.created` and `response.done`."""

    object: Literal["realtime.response"] = "realtime.response"
    id: str
    status: ResponseStatus
    status_details: StatusDetails | None = None
    output: tuple[AnyItem, ...] = ()
    conversation_id: str | None = None
    output_modalities: Modalities
    max_output_tokens: MaxOutputTokens = "inf"
    audio: ToldAudio
    usage: Usage | None = None
    metadata: dict[str, Any] | None = None
    sori: Timings | None = Field(None, exclude_if=absent)
