"""One response: what was asked for, its events from created to done, and its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from pipeline.messages import (
    OUTPUT_RATE_HZ,
    Alignment,
    Plan,
    PromptItem,
    Retention,
    Sampling,
    Start,
    TextDelta,
    Tool,
    ToolCallDelta,
)
from pipeline.messages import Usage as Tokens
from realtime.conversation import Conversation, Entry, Spoken
from realtime.outgoing import Outgoing
from realtime.output_items import OutputCall, OutputItem, OutputMessage, Place
from realtime.prompt import Prompt
from realtime.protocol import server
from realtime.protocol.config import (
    AnyFormat,
    FunctionTool,
    Modality,
    NamedFunction,
    RetentionRatio,
    SessionConfig,
    ToolChoice,
)
from realtime.protocol.responses import (
    CachedTokens,
    InputTokens,
    OutputTokens,
    Response,
    ResponseParams,
    ResponseStatus,
    StatusDetails,
    Timings,
    ToldAudio,
    ToldOutput,
    Usage,
)
from realtime.transitions import ENDED, ReplyState, ReplyTrigger, advance

Value = TypeVar("Value")

AUDIO_TOKEN_SAMPLES = OUTPUT_RATE_HZ // 20  # 50 ms of the assistant's audio count as a token


@dataclass(frozen=True, slots=True)
class ReplySpec:
    """What a response is to be: the session's settings with the request's overrides."""

    modality: Modality
    instructions: str
    format: AnyFormat
    voice: str
    speed: float
    tools: tuple[FunctionTool, ...]
    tool_choice: ToolChoice
    max_output_tokens: int | Literal["inf"]
    latency_first: bool
    truncation: Literal["auto", "disabled"] | RetentionRatio = "auto"
    metadata: dict[str, str] | None = None


def spec_of(config: SessionConfig, params: ResponseParams) -> ReplySpec:
    """Overrides win; what is absent or null is the session's."""
    output = config.audio.output
    asked = params.audio.output if params.audio is not None else None
    return ReplySpec(
        modality=_or(params.output_modalities, config.output_modalities)[0],
        instructions=_or(params.instructions, config.instructions),
        format=_or(asked.format if asked else None, output.format),
        voice=_or(asked.voice if asked else None, output.voice),
        speed=output.speed,
        tools=_or(params.tools, config.tools),
        tool_choice=_or(params.tool_choice, config.tool_choice),
        max_output_tokens=_or(params.max_output_tokens, config.max_output_tokens),
        latency_first=_or(params.latency_first, config.latency_first),
        truncation=config.truncation,
        metadata=params.metadata,
    )


def _or(asked: Value | None, default: Value) -> Value:
    return default if asked is None else asked


class Reply:
    """A response from its wish to its `response.done`.

    conversation: None for a response beside it. context: what stands for the conversation's items,
    if the client brought its own. awaited: the turns that a held reply would answer.
    """

    def __init__(
        self,
        out: Outgoing,
        spec: ReplySpec,
        conversation: Conversation | None,
        context: tuple[Entry, ...] | None = None,
    ) -> None:
        self.id = out.new_id("resp")
        self.spec = spec
        self.generation = 0
        self.prompt: Prompt | None = None
        self.state = ReplyState.HELD
        self.context = context
        self.awaited: list[Entry] = []
        self.timings_ms: dict[str, int] = {}
        self.revisions = 0
        self._out = out
        self._conversation = conversation
        self._output: list[OutputItem] = []
        self._message: OutputMessage | None = None
        self._calls: dict[str, OutputCall] = {}
        self._tokens_written = 0

    @property
    def ended(self) -> bool:
        """Whether it has had its last event."""
        return self.state in ENDED

    @property
    def beside_conversation(self) -> bool:
        """Whether it leaves the conversation alone."""
        return self._conversation is None

    @property
    def spoken(self) -> Spoken | None:
        """How far its voice has come, once it speaks."""
        return self._message.entry.spoken if self._message is not None else None

    @property
    def spoken_text(self) -> str:
        """What its voice says, as far as it is known."""
        return self.spoken.text if self.spoken is not None else ""

    def announce(self) -> None:
        """Tell the client of it."""
        self.state = advance(self.state, ReplyTrigger.ANNOUNCE)
        self._out.say(
            server.ResponseCreated(
                event_id=self._out.event_id(), response=self._told("in_progress")
            )
        )

    def drop(self) -> None:
        """It never was."""
        self.state = advance(self.state, ReplyTrigger.DROP)

    def prepare(self, generation: int, prompt: Prompt) -> None:
        """The cascade works on it; what carries another generation is not its own."""
        self.generation = generation
        self.prompt = prompt

    def start(self) -> None:
        """What the cascade makes is wanted from now on."""
        self.state = advance(self.state, ReplyTrigger.START)

    def pause(self) -> None:
        """The client may be interrupting it."""
        self.state = advance(self.state, ReplyTrigger.PAUSE)

    def resume(self) -> None:
        """The client was not."""
        self.state = advance(self.state, ReplyTrigger.RESUME)

    # -- what the cascade makes ------------------------------------------------------------------

    def add(self, message: TextDelta | ToolCallDelta | Alignment) -> None:
        """Pass on more of the reply."""
        match message:
            case TextDelta(text=text, token_ids=token_ids):
                self._tokens_written += len(token_ids)
                if text:
                    self._open_message().add_text(text)
            case ToolCallDelta(arguments=arguments):
                self._open_call(message).add_arguments(arguments)
            case Alignment(spans=spans):
                if self._message is not None:
                    self._message.add_spans(spans)

    def add_audio(self, payloads: list[bytes], samples: int) -> bool:
        """Pass on audio; whether there was any to pass on."""
        if self.spec.modality != "audio" or not payloads:
            return False
        message = self._open_message()
        message.add_audio(payloads, samples)
        if self._conversation is not None:
            self._conversation.audio.keep(message.entry.id, 0, self.spec.format, payloads)
        return True

    def _place(self) -> Place:
        return Place(self._out, self.id, len(self._output), self._conversation)

    def _open_message(self) -> OutputMessage:
        if self._message is None:
            spoken = self.spec.modality == "audio"
            self._message = OutputMessage(self._place(), self._out.new_id("item"), spoken=spoken)
            self._output.append(self._message)
        return self._message

    def _open_call(self, delta: ToolCallDelta) -> OutputCall:
        call = self._calls.get(delta.call_id)
        if call is None:
            item_id = self._out.new_id("item")
            call = OutputCall(self._place(), item_id, delta.call_id, delta.name)
            self._calls[delta.call_id] = call
            self._output.append(call)
        return call

    # -- the end ---------------------------------------------------------------------------------

    def end(
        self,
        trigger: ReplyTrigger,
        details: StatusDetails | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        """Close what is open and say `response.done`. tokens: if the cascade has counted them."""
        self.state = advance(self.state, trigger)
        completed = self.state is ReplyState.COMPLETED
        if not completed and self.state is not ReplyState.INCOMPLETE and self._message is not None:
            self._message.stop_at_what_was_sent()
        for item in self._output:
            item.close("completed" if completed else "incomplete")
        told = self._told(_STATUS[self.state], details, self._usage(tokens))
        self._out.say(server.ResponseDone(event_id=self._out.event_id(), response=told))

    def _told(
        self,
        status: ResponseStatus,
        details: StatusDetails | None = None,
        usage: Usage | None = None,
    ) -> Response:
        spec = self.spec
        ended = status != "in_progress"
        return Response(
            id=self.id,
            status=status,
            status_details=details,
            output=tuple(item.entry.item for item in self._output) if ended else (),
            conversation_id=self._conversation.id if self._conversation is not None else None,
            output_modalities=(spec.modality,),
            max_output_tokens=spec.max_output_tokens,
            audio=ToldAudio(output=ToldOutput(format=spec.format, voice=spec.voice)),
            usage=usage,
            metadata=spec.metadata,
            sori=Timings(timings_ms=self.timings_ms, revisions=self.revisions)
            if ended and self.timings_ms
            else None,
        )

    def _usage(self, tokens: Tokens | None) -> Usage:
        # An interrupted cascade has not told what it read, only what it wrote.
        tokens = tokens or Tokens(output_tokens=self._tokens_written)
        spoken = self.spoken
        audio = -(-spoken.sent_samples // AUDIO_TOKEN_SAMPLES) if spoken is not None else 0
        return Usage(
            total_tokens=tokens.input_tokens + tokens.output_tokens + audio,
            input_tokens=tokens.input_tokens,
            output_tokens=tokens.output_tokens + audio,
            input_token_details=InputTokens(
                text_tokens=tokens.input_tokens - tokens.audio_tokens - tokens.image_tokens,
                audio_tokens=tokens.audio_tokens,
                image_tokens=tokens.image_tokens,
                cached_tokens=tokens.cached_tokens,
                cached_tokens_details=CachedTokens(text_tokens=tokens.cached_tokens),
            ),
            output_token_details=OutputTokens(text_tokens=tokens.output_tokens, audio_tokens=audio),
        )


_STATUS: Mapping[ReplyState, ResponseStatus] = {
    ReplyState.COMPLETED: "completed",
    ReplyState.INCOMPLETE: "incomplete",
    ReplyState.CANCELLED: "cancelled",
    ReplyState.FAILED: "failed",
}


def start_of(
    reply: Reply,
    items: tuple[PromptItem, ...],
    *,
    session_id: str,
    voice: str,
    speculative: bool = False,
) -> Start:
    """The request to the engine. voice: one that the server has."""
    spec = reply.spec
    choice = spec.tool_choice
    limit = spec.max_output_tokens
    return Start(
        request_id=reply.id,
        plan=Plan.SPEECH if spec.modality == "audio" else Plan.TEXT,
        generation=reply.generation,
        items=items,
        session_id=session_id,
        voice=voice,
        speed=spec.speed,
        tools=_tools(spec.tools),
        tool_choice=choice.name if isinstance(choice, NamedFunction) else choice,
        sampling=Sampling(max_tokens=None if limit == "inf" else limit),
        retention=_retention(spec.truncation),
        latency_first=spec.latency_first,
        speculative=speculative,
        seed=reply.generation,
    )


def _retention(truncation: Literal["auto", "disabled"] | RetentionRatio) -> Retention:
    if isinstance(truncation, RetentionRatio):
        limits = truncation.token_limits
        most = limits.post_instructions if limits is not None else None
        return Retention(ratio=truncation.retention_ratio, max_tokens=most)
    return Retention(drop=truncation == "auto")


def _tools(tools: Iterable[FunctionTool]) -> tuple[Tool, ...]:
    return tuple(Tool(tool.name, tool.description or "", tool.parameters or {}) for tool in tools)
