"""Answers of Chat Completions: collected whole, or cut into the chunks of a stream."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.messages import (
    OUTPUT_RATE_HZ,
    Audio,
    End,
    PipelineMessage,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
)

SPOKEN_TOKEN_SAMPLES = OUTPUT_RATE_HZ // 20
"""50 ms of the assistant's audio count as a token, as in Realtime sessions."""

CHUNK_NBYTES = 6
"""Clients join the Base64 texts of a stream as they are: whole samples, and no padding inside."""

Json = dict[str, Any]


@dataclass(slots=True)
class Answer:
    """One choice, as far as it has come."""

    index: int = 0
    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    calls: dict[str, list[str]] = field(default_factory=dict)  # id: name, arguments
    samples: int = 0
    pcm: list[bytes] = field(default_factory=list)
    end: End | None = None

    def take(self, message: PipelineMessage) -> None:
        """More of it. A stream takes the audio out again by `take_audio`."""
        match message:
            case TextDelta(text=text, logprobs=logprobs):
                self.text += text
                self.logprobs += logprobs
            case ToolCallDelta(call_id=call_id, name=name, arguments=arguments):
                call = self.calls.setdefault(call_id, [name, ""])
                call[1] += arguments
            case Audio(samples=samples, pcm=pcm):
                self.samples += samples
                self.pcm.append(pcm)
            case End():
                self.end = message

    def take_audio(self, *, last: bool = False) -> str:
        """Base64 of the audio that can be sent now."""
        held = b"".join(self.pcm)
        length = len(held) if last else len(held) // CHUNK_NBYTES * CHUNK_NBYTES
        self.pcm = [held[length:]]
        return base64.b64encode(held[:length]).decode("ascii")

    def audio(self) -> NDArray[np.int16]:
        """All of its audio, at 24 kHz."""
        return np.frombuffer(b"".join(self.pcm), np.int16)

    @property
    def finish_reason(self) -> str:
        """Why it is over, in the words of the API."""
        if self.calls:
            return "tool_calls"
        return self.end.reason if self.end is not None else "stop"

    def tool_calls(self) -> list[Json]:
        """The calls it makes."""
        return [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, (name, arguments) in self.calls.items()
        ]


def logprobs_json(logprobs: list[TokenLogprob] | tuple[TokenLogprob, ...]) -> Json:
    """As `choices[].logprobs`."""
    return {
        "content": [
            {
                **_token(one.token, one.logprob),
                "top_logprobs": [_token(token, logprob) for token, logprob in one.top],
            }
            for one in logprobs
        ],
        "refusal": None,
    }


def _token(token: str, logprob: float) -> Json:
    # JSON knows no infinity; the API's own floor for the improbable is this.
    return {"token": token, "logprob": max(logprob, -9999.0), "bytes": list(token.encode())}


def usage_json(answers: list[Answer], audio_tokens: int) -> Json:
    """Of the whole request. audio_tokens: of recordings that were written down for the Thinker."""
    ends = [answer.end.usage for answer in answers if answer.end is not None]
    prompt = max((usage.input_tokens for usage in ends), default=0)
    cached = max((usage.cached_tokens for usage in ends), default=0)
    heard = max((usage.audio_tokens for usage in ends), default=0)
    seen = max((usage.image_tokens for usage in ends), default=0)
    text = sum(usage.output_tokens for usage in ends)
    spoken = sum(-(-answer.samples // SPOKEN_TOKEN_SAMPLES) for answer in answers)
    return {
        "prompt_tokens": prompt + audio_tokens,
        "completion_tokens": text + spoken,
        "total_tokens": prompt + audio_tokens + text + spoken,
        "prompt_tokens_details": {
            "cached_tokens": cached,
            "audio_tokens": heard + audio_tokens,
            "image_tokens": seen,
        },
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": spoken,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


@dataclass(frozen=True, slots=True)
class Head:
    """What all chunks, and the whole answer, have in common."""

    id: str
    created: int
    model: str
    fingerprint: str

    def whole(self, choices: list[Json], usage: Json) -> Json:
        """A `chat.completion`."""
        return self._document("chat.completion", choices) | {"usage": usage}

    def chunk(
        self, index: int, delta: Json, *, finish_reason: str | None = None, **more: Any
    ) -> Json:
        """A `chat.completion.chunk` with one choice."""
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._document("chat.completion.chunk", [choice | more])

    def usage_chunk(self, usage: Json) -> Json:
        """The last chunk, if it was asked for."""
        return self._document("chat.completion.chunk", []) | {"usage": usage}

    def _document(self, kind: str, choices: list[Json]) -> Json:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
            "service_tier": "default",
            "system_fingerprint": self.fingerprint,
        }


class ChunkedAnswer:
    """Cuts one choice into chunks. audio_id: of a spoken answer, else None."""

    def __init__(self, head: Head, answer: Answer, audio_id: str | None, *, logprobs: bool) -> None:
        self._head = head
        self.answer = answer
        self.audio_id = audio_id
        self._logprobs = logprobs
        self._told_id = False

    def begin(self) -> Json:
        """The role."""
        content = None if self.audio_id is not None else ""
        return self._chunk({"role": "assistant", "content": content, "refusal": None})

    def take(self, message: PipelineMessage) -> Iterator[Json]:
        """The chunks that this message makes."""
        known = set(self.answer.calls)
        self.answer.take(message)
        match message:
            case TextDelta() if self.audio_id is not None:
                if message.text:
                    yield self._chunk({"audio": self._audio({"transcript": message.text})})
            case TextDelta(text=text, logprobs=logprobs):
                more = {"logprobs": logprobs_json(logprobs)} if self._logprobs else {}
                yield self._chunk({"content": text}, **more)
            case Audio():
                if data := self.answer.take_audio():
                    yield self._chunk({"audio": self._audio({"data": data})})
            case ToolCallDelta():
                yield self._call(message, new=message.call_id not in known)

    def end(self, expires_at: int) -> Iterator[Json]:
        """What is left, and why it is over."""
        if self.audio_id is not None and not self.answer.calls:
            if data := self.answer.take_audio(last=True):
                yield self._chunk({"audio": self._audio({"data": data})})
            yield self._chunk({"audio": self._audio({"expires_at": expires_at})})
        yield self._chunk({}, finish_reason=self.answer.finish_reason)

    def _chunk(self, delta: Json, **more: Any) -> Json:
        return self._head.chunk(self.answer.index, delta, **more)

    def _audio(self, part: Json) -> Json:
        # Once only: the Python SDK joins the strings of all deltas.
        if not self._told_id:
            self._told_id = True
            return {"id": self.audio_id, **part}
        return part

    def _call(self, message: ToolCallDelta, *, new: bool) -> Json:
        call: Json = {"index": list(self.answer.calls).index(message.call_id)}
        function: Json = {"arguments": message.arguments}
        if new:
            call |= {"id": message.call_id, "type": "function"}
            function["name"] = message.name
        return self._chunk({"tool_calls": [{**call, "function": function}]})
