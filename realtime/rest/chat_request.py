"""The body of `POST /v1/chat/completions`.

Every field of the official SDKs is known. What has no meaning for a server of one's own is accepted
and has no effect; its comment says so. What a client would miss is refused in `chat.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from realtime.protocol.config import ParameterSchema, Voice
from realtime.protocol.wire import FreeObject, Wire

InputFormat = Literal["wav", "mp3", "flac", "ogg", "opus", "pcm16"]
OutputFormat = Literal["wav", "mp3", "flac", "opus", "aac", "pcm16"]

# -- messages --------------------------------------------------------------------------------------


class TextPart(Wire):
    """Text."""

    type: Literal["text"] = "text"
    text: str


class RefusalPart(Wire):
    """What the model declined to say, earlier."""

    type: Literal["refusal"] = "refusal"
    refusal: str


class InputAudio(Wire):
    """A recording. data: Base64. Formats other than wav and mp3 are an extension."""

    data: str = Field(min_length=1)
    format: InputFormat


class AudioPart(Wire):
    """Speech, or any sound."""

    type: Literal["input_audio"] = "input_audio"
    input_audio: InputAudio


class ImageUrl(Wire):
    """A picture as a data URI or Base64. detail: the model looks as closely as it can anyway."""

    url: str
    detail: Literal["auto", "low", "high", "original"] | None = None


class ImagePart(Wire):
    """A picture, for a model that sees."""

    type: Literal["image_url"] = "image_url"
    image_url: ImageUrl


class FilePart(Wire):
    """Known so that it can be refused by name."""

    type: Literal["file"] = "file"
    file: dict[str, Any]


TextParts = Annotated[tuple[TextPart, ...], Field(min_length=1)]
UserPart = Annotated[TextPart | AudioPart | ImagePart | FilePart, Field(discriminator="type")]
AssistantPart = Annotated[TextPart | RefusalPart, Field(discriminator="type")]


class SystemMessage(Wire):
    """Instructions."""

    role: Literal["system"]
    content: str | TextParts
    name: str | None = None


class DeveloperMessage(Wire):
    """Instructions, under their newer name."""

    role: Literal["developer"]
    content: str | TextParts
    name: str | None = None


class UserMessage(Wire):
    """What the user says."""

    role: Literal["user"]
    content: str | Annotated[tuple[UserPart, ...], Field(min_length=1)]
    name: str | None = None


class PastAudio(Wire):
    """An earlier spoken answer."""

    id: str


class CalledFunction(Wire):
    """Which function, and its arguments as JSON text."""

    name: str
    arguments: str


class PastToolCall(Wire):
    """A call that the model made."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class AssistantMessage(Wire):
    """What the model said: content, audio or tool_calls are there."""

    role: Literal["assistant"]
    content: str | Annotated[tuple[AssistantPart, ...], Field(min_length=1)] | None = None
    audio: PastAudio | None = None
    tool_calls: tuple[PastToolCall, ...] | None = None
    refusal: str | None = None
    annotations: tuple[Any, ...] | None = None  # SDKs send back what they got
    function_call: None = None
    name: str | None = None


class ToolMessage(Wire):
    """What a call returned."""

    role: Literal["tool"]
    content: str | TextParts
    tool_call_id: str


Message = Annotated[
    SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage,
    Field(discriminator="role"),
]

# -- the rest --------------------------------------------------------------------------------------


class AudioOptions(Wire):
    """How a spoken answer is to sound and to be packed."""

    voice: Voice
    format: OutputFormat


class FunctionDefinition(Wire):
    """What a function is called, what it is for and what it takes."""

    name: str = Field(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+$")
    description: str | None = None
    parameters: ParameterSchema | None = None
    strict: bool | None = None


class ToolDefinition(Wire):
    """A function that the model may call."""

    type: Literal["function"]
    function: FunctionDefinition


class FunctionName(Wire):
    """By name."""

    name: str


class NamedTool(Wire):
    """The one function that must be called."""

    type: Literal["function"]
    function: FunctionName


class PlainText(Wire):
    """Any text."""

    type: Literal["text"]


class JsonObject(Wire):
    """Any JSON object."""

    type: Literal["json_object"]


class JsonSchema(Wire):
    """schema: what the answer must be valid for."""

    name: str = Field(min_length=1, max_length=64)
    description: str | None = None
    json_schema: FreeObject | None = Field(None, alias="schema")
    strict: bool | None = None


class JsonSchemaFormat(Wire):
    """JSON of one form."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[PlainText | JsonObject | JsonSchemaFormat, Field(discriminator="type")]


class StreamOptions(Wire):
    """include_usage: a last chunk with the usage of the whole request."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None  # no effect: nothing is added to chunks


class ExtraBody(Wire):
    """What an SDK puts at the top level, and clients without one nest by mistake."""

    latency_first: bool | None = None


MAX_TOKENS = 2**31 - 1
"""What llama.cpp counts in."""

StopText = Annotated[str, Field(min_length=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]


class ChatRequest(Wire):
    """All that may be asked for. `latency_first` is an extension, as is `extra_body`."""

    model: str = Field(min_length=1)
    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    modalities: Annotated[tuple[Literal["text", "audio"], ...], Field(min_length=1)] | None = None
    audio: AudioOptions | None = None
    tools: tuple[ToolDefinition, ...] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    n: int | None = Field(None, ge=1, le=8)
    stop: StopText | Annotated[tuple[StopText, ...], Field(max_length=4)] | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    max_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS)
    max_completion_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    latency_first: bool | None = None
    extra_body: ExtraBody | None = None
    # Accepted without effect.
    metadata: dict[str, str] | None = None
    user: str | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    moderation: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    prediction: dict[str, Any] | None = None

    @property
    def spoken(self) -> bool:
        """Whether the answer is to be spoken."""
        return "audio" in (self.modalities or ())

    @property
    def fast(self) -> bool:
        """Latency first, unless quality is asked for."""
        if self.latency_first is not None:
            return self.latency_first
        nested = self.extra_body.latency_first if self.extra_body is not None else None
        return True if nested is None else nested
