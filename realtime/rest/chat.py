"""`POST /v1/chat/completions`: text, or text and speech, whole or as a stream."""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from numpy.typing import NDArray

from audio.encoding import encode_file
from pipeline.abilities import Ability
from pipeline.messages import (
    OUTPUT_RATE_HZ,
    Alignment,
    Failed,
    Mark,
    PipelineMessage,
    Plan,
    Sampling,
    Start,
    Tool,
)
from realtime.auth import offered_key
from realtime.config import Config
from realtime.rest.bodies import read_json
from realtime.rest.chat_answer import Answer, ChunkedAnswer, Head, Json, logprobs_json, usage_json
from realtime.rest.chat_prompt import ChatPrompt, PromptBuilder
from realtime.rest.chat_request import ChatRequest, JsonObject, JsonSchemaFormat, NamedTool
from realtime.rest.errors import MISSING, ApiError, bad_request
from realtime.rest.models import known_model, require_key
from realtime.rest.recordings import Heard, hear_all, windows_of
from realtime.rest.streaming import SSE, StreamedAnswer, sse
from realtime.rest.work import api_error, merged, place, while_connected
from realtime.service import Service

router = APIRouter(prefix="/v1", dependencies=[Depends(require_key)])

FINGERPRINT = "fp_sori"

_TOKEN_ID = re.compile(r"[0-9]{1,9}")


@router.post("/chat/completions")
async def create_chat_completion(request: Request) -> Response:
    """One request of a chat."""
    service: Service = request.app.state.service
    body = await read_json(request, ChatRequest, service.config.max_body_bytes)
    known_model(service.config, body.model)
    refuse_what_cannot_be(body)
    refuse_what_is_lacking(body, service.engine.lacks)
    completion = Completion(service, body, offered_key(request.headers) or "")
    if body.stream:
        return StreamedAnswer(service, completion.stream, SSE)
    with place(service):
        return JSONResponse(await while_connected(request.receive, completion.whole()))


def refuse_what_cannot_be(body: ChatRequest) -> None:
    """Fields that contradict each other, or ask for what is not here. Raises ApiError."""
    if body.spoken and body.audio is None:
        raise bad_request("Missing required parameter: 'audio'.", "audio", MISSING)
    if body.modalities is not None and "text" not in body.modalities:
        raise bad_request(
            "Invalid value: 'modalities'. Supported combinations are: ['text'] and "
            "['text', 'audio'].",
            "modalities",
        )
    if body.spoken and body.stream and body.audio and body.audio.format != "pcm16":
        raise bad_request(
            f"Unsupported value: 'audio.format' does not support '{body.audio.format}' when "
            "stream=true. Supported values are: 'pcm16'.",
            "audio.format",
            "unsupported_value",
        )
    if body.spoken and (body.n or 1) > 1:
        raise bad_request(
            "A spoken answer has one choice: 'n' must be 1.", "n", "unsupported_value"
        )
    if body.top_logprobs is not None and not body.logprobs:
        raise bad_request("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
    if body.stream_options is not None and not body.stream:
        raise bad_request("'stream_options' is only for stream=true.", "stream_options")
    _refuse_tools(body)
    _refuse_biases(body)


def _refuse_tools(body: ChatRequest) -> None:
    names = [tool.function.name for tool in body.tools or ()]
    if isinstance(body.tool_choice, NamedTool) and body.tool_choice.function.name not in names:
        raise bad_request(
            f"Invalid value for 'tool_choice': no function named "
            f"'{body.tool_choice.function.name}' was specified in the 'tools' parameter.",
            "tool_choice",
        )
    if body.tool_choice is not None and body.tool_choice != "none" and not names:
        raise bad_request(
            "'tool_choice' is only allowed when 'tools' are specified.", "tool_choice"
        )
    for index, name in enumerate(names):
        if name in names[:index]:
            raise bad_request(f"There are two functions named '{name}'.", f"tools[{index}]")


def refuse_what_is_lacking(body: ChatRequest, lacks: frozenset[Ability]) -> None:
    """What these models cannot do. Raises ApiError."""
    if Ability.CALLS in lacks and body.tools and body.tool_choice != "none":
        raise bad_request(
            "This server's model does not call functions.", "tools", "unsupported_value"
        )
    shaped = {
        "response_format": body.response_format is not None and body.response_format.type != "text",
        "logprobs": body.logprobs,
        "logit_bias": body.logit_bias,
        "frequency_penalty": body.frequency_penalty,
        "presence_penalty": body.presence_penalty,
    }
    for param, asked in shaped.items():
        if Ability.SHAPES in lacks and asked:
            message = f"This server's model does not support '{param}'."
            raise bad_request(message, param, "unsupported_value")


def _refuse_biases(body: ChatRequest) -> None:
    for token in body.logit_bias or ():
        if _TOKEN_ID.fullmatch(token) is None:
            raise bad_request(
                f"Invalid key in 'logit_bias': '{token[:40]}'. Keys are token ids.", "logit_bias"
            )


class Completion:
    """One request on its way. owner: the key it came with."""

    def __init__(self, service: Service, body: ChatRequest, owner: str) -> None:
        self._service = service
        self._engine = service.engine
        self._body = body
        self._owner = owner
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._head = Head(self._id, int(time.time()), body.model, FINGERPRINT)
        self._audio_id = f"audio_{secrets.token_hex(12)}" if body.spoken else None

    async def whole(self) -> Json:
        """The answer as one document. Raises ApiError."""
        prompt = await self._prompt()
        answers = [Answer(index) for index in range(self._body.n or 1)]
        async with aclosing(self._messages(prompt, len(answers))) as messages:
            async for index, message in messages:
                answers[index].take(message)
        choices = [await self._choice(answer) for answer in answers]
        return self._head.whole(choices, usage_json(answers, prompt.audio_tokens))

    async def stream(self) -> AsyncIterator[bytes]:
        """The answer as server-sent events. Raises ApiError."""
        body = self._body
        prompt = await self._prompt()
        chunked = [
            ChunkedAnswer(self._head, Answer(index), self._audio_id, logprobs=bool(body.logprobs))
            for index in range(body.n or 1)
        ]
        begun = False
        async with aclosing(self._messages(prompt, len(chunked))) as messages:
            async for index, message in messages:
                if not begun:
                    begun = True
                    for one in chunked:
                        yield sse(self._told(one.begin()))
                for chunk in chunked[index].take(message):
                    yield sse(self._told(chunk))
        for one in chunked:
            for chunk in one.end(self._keep(one.answer)):
                yield sse(self._told(chunk))
        if self._usage_wanted:
            answers = [one.answer for one in chunked]
            yield sse(self._head.usage_chunk(usage_json(answers, prompt.audio_tokens)))
        yield sse("[DONE]")

    @property
    def _usage_wanted(self) -> bool:
        options = self._body.stream_options
        return options is not None and bool(options.include_usage)

    def _told(self, chunk: Json) -> Json:
        return chunk | {"usage": None} if self._usage_wanted else chunk

    async def _prompt(self) -> ChatPrompt:
        def hear(samples: NDArray[np.int16], name: str) -> AsyncGenerator[Heard]:
            return hear_all(self._engine, windows_of([samples]), f"{self._id}-{name}")

        builder = PromptBuilder(
            None if self._engine.hears else hear,
            lambda answer_id: self._service.audio_history.find(answer_id, self._owner),
            max_audio_s=self._service.config.max_input_audio_s,
            max_pixels=self._service.config.max_image_pixels if self._engine.sees else 0,
            max_all_pixels=self._service.config.max_prompt_pixels,
            instructions=self._service.config.instructions,
        )
        return await builder.build(self._body.messages)

    async def _messages(
        self, prompt: ChatPrompt, count: int
    ) -> AsyncGenerator[tuple[int, PipelineMessage]]:
        """What the engine gives for each choice. Raises ApiError."""
        async with AsyncExitStack() as stack:
            replies = [
                await stack.enter_async_context(
                    aclosing(
                        self._engine.submit(start, prompt.recordings, pictures=prompt.pictures)
                    )
                )
                for start in self._starts(prompt, count)
            ]
            async with aclosing(merged(replies)) as messages:
                async for index, message in messages:
                    if isinstance(message, Failed):
                        raise self._failure(message)
                    if not isinstance(message, Mark | Alignment):
                        yield index, message

    def _failure(self, failure: Failed) -> ApiError:
        param = None
        if failure.code == "invalid_schema":
            constrained = isinstance(self._body.response_format, JsonSchemaFormat)
            param = "response_format.json_schema.schema" if constrained else "tools"
        elif failure.code == "context_length_exceeded":
            param = "messages"
        return api_error(failure, param)

    def _starts(self, prompt: ChatPrompt, count: int) -> list[Start]:
        body = self._body
        choice = body.tool_choice
        common = partial(
            Start,
            plan=Plan.SPEECH if body.spoken else Plan.TEXT,
            items=prompt.items,
            session_id=f"chat-{body.prompt_cache_key}" if body.prompt_cache_key else "",
            voice=_voice(self._service.config, body),
            tools=tuple(
                Tool(t.function.name, t.function.description or "", t.function.parameters or {})
                for t in body.tools or ()
            ),
            tool_choice=choice.function.name if isinstance(choice, NamedTool) else choice or "auto",
            latency_first=body.fast,
            background=True,
        )
        return [
            common(request_id=f"{self._id}-{index}", sampling=_sampling(body, index), seed=index)
            for index in range(count)
        ]

    async def _choice(self, answer: Answer) -> Json:
        message: Json = {
            "role": "assistant",
            "content": answer.text,
            "refusal": None,
            "annotations": [],
        }
        if answer.calls:
            message |= {"content": answer.text or None, "tool_calls": answer.tool_calls()}
        elif self._audio_id is not None and self._body.audio is not None:
            kind = self._body.audio.format.removesuffix("16")
            data = await asyncio.to_thread(encode_file, kind, answer.audio(), OUTPUT_RATE_HZ)
            audio = {
                "id": self._audio_id,
                "data": base64.b64encode(data).decode("ascii"),
                "expires_at": self._keep(answer),
                "transcript": answer.text,
            }
            message |= {"content": None, "audio": audio}
        return {
            "index": answer.index,
            "message": message,
            "logprobs": logprobs_json(answer.logprobs) if self._body.logprobs else None,
            "finish_reason": answer.finish_reason,
        }

    def _keep(self, answer: Answer) -> int:
        """Remember a spoken answer; until when."""
        history = self._service.audio_history
        expires_at = history.expiry()
        if self._audio_id is not None:
            history.keep(self._audio_id, self._owner, answer.text, expires_at)
        return expires_at


def _voice(config: Config, body: ChatRequest) -> str:
    return body.audio.voice if body.audio is not None else config.voice


def _sampling(body: ChatRequest, index: int) -> Sampling:
    shape = body.response_format
    schema: dict[str, Any] | None = None
    if isinstance(shape, JsonObject):
        schema = {"type": "object"}
    elif isinstance(shape, JsonSchemaFormat):
        schema = shape.json_schema.json_schema or {"type": "object"}
    stop = (body.stop,) if isinstance(body.stop, str) else body.stop or ()
    return Sampling(
        max_tokens=body.max_completion_tokens or body.max_tokens,
        temperature=_temperature(body, index),
        top_p=body.top_p,
        seed=None if body.seed is None else (body.seed + index) % 2**32,
        stop=stop,
        frequency_penalty=body.frequency_penalty,
        presence_penalty=body.presence_penalty,
        logit_bias={int(token): bias for token, bias in (body.logit_bias or {}).items()},
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        json_schema=schema,
    )


def _temperature(body: ChatRequest, index: int) -> float | None:
    if body.temperature is None and index > 0:
        return 1.0  # a second choice that must be the first one is none
    return body.temperature
