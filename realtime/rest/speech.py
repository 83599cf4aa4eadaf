"""`POST /v1/audio/speech`: a text is spoken, and sent while it is spoken."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal

import numpy as np
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from audio.encoding import FILE_FORMATS, file_encoder
from pipeline.abilities import Ability
from pipeline.messages import OUTPUT_RATE_HZ, Audio, Failed, Plan, PromptItem, Start
from realtime.protocol.config import Voice
from realtime.protocol.wire import Wire
from realtime.rest.bodies import read_json
from realtime.rest.chat_answer import SPOKEN_TOKEN_SAMPLES
from realtime.rest.errors import bad_request
from realtime.rest.models import known_model, require_key
from realtime.rest.streaming import SSE, StreamedAnswer, sse
from realtime.rest.work import api_error
from realtime.service import Service

router = APIRouter(prefix="/v1", dependencies=[Depends(require_key)])

MAX_CHARS = 4096
CHARS_PER_TOKEN = 4
"""The given text is not tokenised; this is what its tokens are counted as."""


class SpeechRequest(Wire):
    """instructions: accepted without effect, since the embedded voices take none."""

    model: str = Field(min_length=1)
    input: str = Field(min_length=1, max_length=MAX_CHARS)
    voice: Voice
    instructions: str | None = Field(None, max_length=MAX_CHARS)
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] | None = None
    speed: float | None = Field(None, ge=0.25, le=4)
    stream_format: Literal["audio", "sse"] | None = None
    latency_first: bool = True  # an extension


@router.post("/audio/speech")
async def create_speech(request: Request) -> Response:
    """Bytes of one file, or server-sent events."""
    service: Service = request.app.state.service
    body = await read_json(request, SpeechRequest, service.config.max_body_bytes)
    known_model(service.config, body.model)
    if Ability.READS in service.engine.lacks:
        raise bad_request(
            "This server's model speaks only what it says itself; it cannot read out a text.",
            "model",
            "unsupported_value",
        )
    speaking = Speaking(service, body)
    if body.stream_format == "sse":
        return StreamedAnswer(service, speaking.events, SSE)
    return StreamedAnswer(service, speaking.file, FILE_FORMATS[speaking.format].media_type)


class Speaking:
    """One text on its way out."""

    def __init__(self, service: Service, body: SpeechRequest) -> None:
        self._engine = service.engine
        self.format = body.response_format or "mp3"
        self._chars = len(body.input)
        self._samples = 0
        self._start = Start(
            f"speech-{secrets.token_hex(12)}",
            Plan.TTS,
            items=(PromptItem("assistant", body.input),),
            voice=body.voice,
            speed=body.speed or 1.0,
            latency_first=body.latency_first,
            background=True,
        )

    async def file(self) -> AsyncGenerator[bytes]:
        """The file, in pieces. Raises ApiError."""
        encoder = await asyncio.to_thread(file_encoder, self.format, OUTPUT_RATE_HZ)
        # A reader that is slow keeps the engine waiting: its queue is short.
        async with aclosing(self._engine.submit(self._start)) as messages:
            async for message in messages:
                if isinstance(message, Failed):
                    raise api_error(message)
                if isinstance(message, Audio):
                    self._samples += message.samples
                    samples = np.frombuffer(message.pcm, np.int16)
                    if piece := await asyncio.to_thread(encoder.encode, samples):
                        yield piece
        if piece := await asyncio.to_thread(encoder.finish):
            yield piece

    async def events(self) -> AsyncGenerator[bytes]:
        """The same as server-sent events, with the usage at the end."""
        async with aclosing(self.file()) as pieces:
            async for piece in pieces:
                data = base64.b64encode(piece).decode("ascii")
                yield sse({"type": "speech.audio.delta", "audio": data})
        asked = -(-self._chars // CHARS_PER_TOKEN)
        spoken = -(-self._samples // SPOKEN_TOKEN_SAMPLES)
        usage = {
            "input_tokens": asked,
            "output_tokens": spoken,
            "total_tokens": asked + spoken,
        }
        yield sse({"type": "speech.audio.done", "usage": usage})
