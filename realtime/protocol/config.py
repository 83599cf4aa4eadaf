"""The session's configuration: every key of `session.update`, with the defaults of a fresh session.

Where a key is accepted only because stock clients send it, its comment says so.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from realtime.protocol.wire import FreeObject, Wire, absent

Modality = Literal["text", "audio"]
Effort = Literal["minimal", "low", "medium", "high", "xhigh"]

# -- formats ---------------------------------------------------------------------------------------


class Pcm(Wire):
    """16 bit, little endian, mono. Rates other than 24000 are an extension."""

    type: Literal["audio/pcm"] = "audio/pcm"
    rate: int = Field(24_000, ge=8_000, le=48_000)


class Pcmu(Wire):
    """G.711 µ-law at 8 kHz."""

    type: Literal["audio/pcmu"] = "audio/pcmu"


class Pcma(Wire):
    """G.711 A-law at 8 kHz."""

    type: Literal["audio/pcma"] = "audio/pcma"


class Opus(Wire):
    """An extension: one raw Opus packet, mono, per append and per delta."""

    type: Literal["audio/opus"] = "audio/opus"


Format = Annotated[Pcm | Pcmu | Pcma | Opus, Field(discriminator="type")]
AnyFormat = Pcm | Pcmu | Pcma | Opus

_DEFAULT_RATES_HZ = {"audio/pcmu": 8_000, "audio/pcma": 8_000, "audio/opus": 24_000}


def rate_of(chosen: AnyFormat) -> int:
    """Rate of the samples that this format's codec works with, in Hz."""
    return chosen.rate if isinstance(chosen, Pcm) else _DEFAULT_RATES_HZ[chosen.type]


# -- input -----------------------------------------------------------------------------------------


class NoiseReduction(Wire):
    """Accepted and echoed; the ears work on the sound as it comes."""

    type: Literal["near_field", "far_field"] = "near_field"
    strength: float | None = Field(None, ge=0, le=1, exclude_if=absent)


class Transcription(Wire):
    """Whether the client wants to see what the user said. Foreign model names are accepted."""

    model: str | None = None
    language: str | None = Field(None, max_length=32)
    prompt: str | None = None
    languages: tuple[str, ...] | None = Field(None, min_length=1, exclude_if=absent)
    keywords: tuple[str, ...] | None = Field(None, exclude_if=absent)
    delay: Effort | None = Field(None, exclude_if=absent)


# An extension: speech this long interrupts, whatever it says; null leaves it to the server.
InterruptConfirmMs = Field(None, ge=0, le=10_000, exclude_if=absent)


class ServerVad(Wire):
    """A turn ends with a silence of a set length."""

    type: Literal["server_vad"] = "server_vad"
    threshold: float = Field(0.5, ge=0, le=1)
    prefix_padding_ms: int = Field(300, ge=0, le=10_000)
    silence_duration_ms: int = Field(500, ge=0, le=60_000)
    idle_timeout_ms: int | None = Field(None, ge=5_000, le=30_000)
    create_response: bool = True
    interrupt_response: bool = True
    interrupt_confirm_ms: int | None = InterruptConfirmMs


class SemanticVad(Wire):
    """A turn ends when what was said sounds finished."""

    type: Literal["semantic_vad"] = "semantic_vad"
    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    create_response: bool = True
    interrupt_response: bool = True
    interrupt_confirm_ms: int | None = InterruptConfirmMs


TurnDetection = Annotated[ServerVad | SemanticVad, Field(discriminator="type")]


class AudioInput(Wire):
    """How the microphone is heard. turn_detection None: the client commits its turns."""

    format: Format = Pcm()
    noise_reduction: NoiseReduction | None = None
    transcription: Transcription | None = None
    turn_detection: TurnDetection | None = SemanticVad()


# -- output ----------------------------------------------------------------------------------------


def _name_of(voice: Any) -> Any:
    # Echoed as a string always: several clients fail on the object they may send.
    if isinstance(voice, dict) and set(voice) == {"id"}:
        return voice["id"]
    return voice


Voice = Annotated[str, BeforeValidator(_name_of), Field(min_length=1, max_length=256)]


class AudioOutput(Wire):
    """How replies sound. Voices that the server does not have are replaced by its default.

    keeps_buffer, an extension: on `speech_started` the client pauses its playback and keeps what it
    has not played. Then a cough only pauses the reply.
    """

    format: Format = Pcm()
    voice: Voice = "marin"
    speed: float = Field(1.0, ge=0.25, le=1.5)
    keeps_buffer: bool | None = Field(None, exclude_if=absent)


class Audio(Wire):
    """Both ways."""

    input: AudioInput = AudioInput()
    output: AudioOutput = AudioOutput()


# -- tools -----------------------------------------------------------------------------------------


def _of_an_object(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type", "object") != "object":
        raise ValueError("a JSON schema of type 'object', because arguments are one")
    return schema


ParameterSchema = Annotated[FreeObject, AfterValidator(_of_an_object)]
"""A JSON schema of a function's arguments."""


class FunctionTool(Wire):
    """A function the model may call."""

    type: Literal["function"] = "function"
    name: str = Field(min_length=1, max_length=256)
    description: str | None = Field(None, exclude_if=absent)
    parameters: ParameterSchema | None = Field(None, exclude_if=absent)


class NamedFunction(Wire):
    """The one function that must be called."""

    type: Literal["function"] = "function"
    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedFunction


# -- the session -----------------------------------------------------------------------------------


def _one_modality(chosen: tuple[Modality, ...]) -> tuple[Modality, ...]:
    if len(chosen) != 1:
        raise ValueError("Supported combinations are: ['text'] and ['audio'].")
    return chosen


Modalities = Annotated[tuple[Modality, ...], AfterValidator(_one_modality)]

MaxOutputTokens = Annotated[int, Field(ge=1, le=4096)] | Literal["inf"]


class Reasoning(Wire):
    """Accepted and echoed."""

    effort: Effort | None = None


class Tracing(Wire):
    """Accepted and echoed; every SDK sends it, and there are no traces here."""

    workflow_name: str | None = Field(None, exclude_if=absent)
    group_id: str | None = Field(None, exclude_if=absent)
    metadata: FreeObject | None = Field(None, exclude_if=absent)


class TokenLimits(Wire):
    """How much of the context may be kept."""

    post_instructions: int | None = Field(None, ge=0)


class RetentionRatio(Wire):
    """Drop more than needed when the context overflows, so that the next turns fit."""

    type: Literal["retention_ratio"] = "retention_ratio"
    retention_ratio: float = Field(ge=0, le=1)
    token_limits: TokenLimits | None = Field(None, exclude_if=absent)


class SessionConfig(Wire):
    """What a client can set. `model` is told by every SDK, and fixed when the socket opens."""

    type: Literal["realtime"] = "realtime"
    model: str = "sori"
    output_modalities: Modalities = ("audio",)
    instructions: str = ""
    audio: Audio = Audio()
    tools: tuple[FunctionTool, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool | None = Field(None, exclude_if=absent)
    reasoning: Reasoning | None = Field(None, exclude_if=absent)
    max_output_tokens: MaxOutputTokens = "inf"
    truncation: Literal["auto", "disabled"] | RetentionRatio = "auto"
    tracing: Literal["auto"] | Tracing | None = None
    prompt: None = None  # hosted prompts cannot take effect; SDKs send null
    include: tuple[Literal["item.input_audio_transcription.logprobs"], ...] | None = None
    latency_first: bool = True  # an extension


class EffectiveSession(SessionConfig):
    """The session as the client sees it."""

    object: Literal["realtime.session"] = "realtime.session"
    id: str
    expires_at: int
