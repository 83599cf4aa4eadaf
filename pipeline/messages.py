"""Every value that crosses a boundary of the engine: plain, frozen, picklable.

A message never holds bulk data. Arrays travel beside it, as an `Input` or `Output` of a stage
(see `pipeline.stage`), inline or in a pool slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from pipeline.plain import Plain

INPUT_RATE_HZ = 16_000
"""Rate of all audio that goes into the engine (ears, transcriber): mono int16."""

OUTPUT_RATE_HZ = 24_000
"""Rate of all audio that comes out of it: mono int16."""

CONDITION_TEXT = "text"
CONDITION_ROWS = "rows"


class Plan(StrEnum):
    """Which stages a request runs through."""

    TEXT = "text"  # thinker
    SPEECH = "speech"  # thinker, talker, voicebox
    TTS = "tts"  # talker, voicebox: the text is given
    TRANSCRIBE = "transcribe"  # transcriber
    JUDGE = "judge"  # turn detector
    LISTEN = "listen"  # ears: lives as long as its session


@dataclass(frozen=True, slots=True)
class ToolCall(Plain):
    """A call the model made in an earlier turn."""

    call_id: str
    name: str
    arguments: str


RECORDING = "\ufffc"
"""Where a recording stands in a text: Unicode's object replacement character."""

PICTURE = "\ufff9"
"""Where a picture stands in a text: the interlinear annotation anchor, which no text needs."""


@dataclass(frozen=True, slots=True)
class PromptItem(Plain):
    """One message of the conversation as the Thinker sees it.

    recordings: how many 16 kHz samples each has, in order, of which one stands at each RECORDING in
    the text. The samples go beside the Start. Only for a Thinker that hears.
    pictures: the height and width of each, likewise, at each PICTURE. For a Thinker that sees.
    """

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    recordings: tuple[int, ...] = ()
    pictures: tuple[tuple[int, int], ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Tool(Plain):
    """A function the model may call; `parameters` is a JSON schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sampling(Plain):
    """How the Thinker picks tokens; None leaves the model's own default.

    logit_bias: added to the scores of token ids. top_logprobs: how many alternatives to tell for
    each token besides the one that was picked; None tells no probabilities.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    top_logprobs: int | None = None
    json_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Retention(Plain):
    """What becomes of a conversation that the model's context cannot hold.

    drop: the oldest turns go; otherwise the request fails with `context_length_exceeded`. ratio: so
    much of the context is kept when some must go; None leaves it to the Thinker. max_tokens: of all
    that follows the instructions, even if the context could hold more.
    """

    drop: bool = True
    ratio: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Start(Plain):
    """A request. `generation` is the submitter's number for it: anything older is stale.

    session_id groups requests that share a prompt prefix. For `Plan.TTS` the text is the last
    item's. For `Plan.TRANSCRIBE`, `language` and `prompt` are hints. Its audio, that of
    `Plan.JUDGE`, and the recordings of the items one after the other, go beside.
    speed scales the pace of speech (1.0 is the voice's own). seed fixes sampling and noise.
    background: nobody waits for it in a conversation, so that others go first. word_times: have the
    Transcriber tell when each word was said. token_logprobs: and how sure it was of each token.
    """

    request_id: str
    plan: Plan
    generation: int = 0
    items: tuple[PromptItem, ...] = ()
    session_id: str = ""
    voice: str = "marin"
    speed: float = 1.0
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"  # auto, none, required, or a function's name
    sampling: Sampling = Sampling()
    retention: Retention = Retention()
    latency_first: bool = True
    speculative: bool = False
    background: bool = False
    word_times: bool = False
    token_logprobs: bool = False
    language: str | None = None
    prompt: str = ""
    seed: int = 0


# -- stage → engine ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenLogprob(Plain):
    """A token that was picked, its log-probability, and the likeliest ones in its place."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta(Plain):
    """More text of the reply (thinker) or of the transcript (transcriber)."""

    text: str
    output_index: int = 0
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCallDelta(Plain):
    """More of a function call's arguments; the first delta of a call_id carries its name."""

    call_id: str
    name: str
    arguments: str
    output_index: int = 0


@dataclass(frozen=True, slots=True)
class Condition(Plain):
    """What the Talker speaks from: the text itself, or rows of a model's space in the payload.

    text: what is to be heard of it. meta: what the Talker of the same model family needs beside.
    """

    kind: Literal["text", "rows"] = "text"
    text: str = ""
    token_span: tuple[int, int] = (0, 0)
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frames(Plain):
    """Acoustic frames or codec tokens, in the payload.

    meta: what the VoiceBox of the same model family needs beside the array (plain values).
    alignment: words that end inside this payload, as (char_start, char_end, frame_end), where
    frame_end counts frames from the start of the reply.
    """

    meta: Mapping[str, Any] = field(default_factory=dict)
    alignment: tuple[tuple[int, int, int], ...] = ()
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Audio(Plain):
    """24 kHz mono int16 samples. Inside the engine they are the payload; out of it, `pcm`."""

    samples: int
    pcm: bytes = b""


@dataclass(frozen=True, slots=True)
class Picture(Plain):
    """Rows of a picture in a prompt, on their way to the Thinker: uint8 [rows, 3 x width]."""

    rows: int


@dataclass(frozen=True, slots=True)
class Alignment(Plain):
    """Which characters have been spoken up to which sample.

    spans: monotone (char_start, char_end, sample_end); characters are code points of the
    concatenated TextDeltas, samples count from the start of the reply at 24 kHz after speed.
    Sent just before the Audio that it describes.
    """

    spans: tuple[tuple[int, int, int], ...]
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Speech(Plain):
    """Speech probability of one VAD window that ended at `end_sample` (16 kHz, of the session)."""

    probability: float
    end_sample: int


@dataclass(frozen=True, slots=True)
class TurnEnd(Plain):
    """How probable it is, from its sound, that an utterance is finished: 0 to 1."""

    probability: float


@dataclass(frozen=True, slots=True)
class Reset(Plain):
    """To the ears: forget the state of the VAD. Sample counts go on."""


@dataclass(frozen=True, slots=True)
class Usage(Plain):
    """Tokens of a request. audio_tokens, image_tokens: of the input, of sounds and pictures."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    audio_tokens: int = 0
    image_tokens: int = 0


@dataclass(frozen=True, slots=True)
class End(Plain):
    """The only sign that no more comes. reason: stop, length, tool_calls."""

    reason: Literal["stop", "length", "tool_calls"] = "stop"
    usage: Usage = Usage()
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed(Plain):
    """The request is over, without its result. code is stable and machine readable."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Mark(Plain):
    """A point of the request's timing record, in seconds on the server's monotonic clock.

    The engine emits one each for: thinker_start, first_text, thinker_end, first_frames,
    first_audio, audio_end.
    """

    name: str
    at_s: float


StageMessage = (
    TextDelta
    | ToolCallDelta
    | Condition
    | Frames
    | Audio
    | Picture
    | Alignment
    | Speech
    | TurnEnd
    | Reset
    | End
    | Failed
)
"""What a stage may take in or give out."""

PipelineMessage = TextDelta | ToolCallDelta | Alignment | Audio | TurnEnd | Mark | End | Failed
"""What `Engine.submit` yields. The last one is always End or Failed."""
