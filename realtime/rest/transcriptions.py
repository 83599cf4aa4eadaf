"""`POST /v1/audio/transcriptions`: what is said in a recording of any length."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, BinaryIO, Literal, get_args

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.datastructures import UploadFile

from audio.containers import ContainerError, read_audio
from pipeline.messages import INPUT_RATE_HZ
from realtime.config import Config
from realtime.rest.captions import Segment, segments_of, srt, vtt, words_of
from realtime.rest.errors import MISSING, bad_request
from realtime.rest.models import known_model, require_key
from realtime.rest.recordings import Heard, hear_all, unreadable, windows_of
from realtime.rest.streaming import SSE, StreamedAnswer, sse
from realtime.rest.uploads import read_form
from realtime.rest.work import place, while_connected
from realtime.service import Service

logger = logging.getLogger(__name__)

router = APIRouter(prefix="/v1", dependencies=[Depends(require_key)])

Shape = Literal["json", "text", "srt", "vtt", "verbose_json"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
TIMED = frozenset({"srt", "vtt", "verbose_json"})
GRANULARITIES = ("word", "segment")
ACCEPTED = frozenset({"temperature", "chunking_strategy"})
"""Fields without effect: decoding is greedy, and windows are cut at quiet moments anyway."""

PROGRESS_S = 300
"""A line in the log for each so many seconds of a long recording."""

_ENGLISH = re.compile(r"^en([-_].*)?$|^english$", re.IGNORECASE)
_FIELD = re.compile(r"^(\w+)(\[\])?$")


@router.post("/audio/transcriptions")
async def create_transcription(request: Request) -> Response:
    """One recording."""
    service: Service = request.app.state.service
    form = await read_form(request, service.config.max_file_bytes)
    wish = Wish(form, service.config)
    task = Transcription(service, wish)
    if wish.stream:
        return StreamedAnswer(service, task.events, SSE)
    with place(service):
        return await while_connected(request.receive, task.whole())


@router.post("/audio/translations")
async def create_translation(request: Request) -> Response:
    """The embedded Transcriber knows English only, so there is nothing to translate from."""
    raise bad_request(
        "Translations need a multilingual model; the model of this server knows English only. "
        "Use /v1/audio/transcriptions.",
        "model",
        "unsupported_value",
    )


class Wish:
    """What the form asks for. Raises ApiError naming the field at fault."""

    def __init__(self, form: Mapping[str, list[Any]], config: Config) -> None:
        self._form = form
        self.file = self._file()
        self.model = self._text("model")
        if self.model is None:
            raise bad_request("Missing required parameter: 'model'.", "model", MISSING)
        known_model(config, self.model)
        self.shape = self._one_of("response_format", SHAPES) or "json"
        self.stream = self._flag("stream")
        self.prompt = self._prompt()
        self.language = self._text("language")
        self._check_languages()
        self.granularities = self._granularities()
        self.logprobs = self._includes_logprobs()
        self._temperature()
        self._refuse_the_rest()

    def _values(self, name: str) -> list[Any]:
        return [*self._form.get(name, []), *self._form.get(f"{name}[]", [])]

    def _text(self, name: str) -> str | None:
        values = self._values(name)
        if not values:
            return None
        if len(values) > 1 or not isinstance(values[0], str):
            raise bad_request(
                f"Invalid type for '{name}': expected one text.", name, "invalid_type"
            )
        return values[0] or None

    def _one_of(self, name: str, supported: tuple[Any, ...]) -> Any:
        value = self._text(name)
        if value is not None and value not in supported:
            listed = ", ".join(f"'{one}'" for one in supported)
            raise bad_request(f"Invalid value: '{value}'. Supported values are: {listed}.", name)
        return value

    def _flag(self, name: str) -> bool:
        return (self._one_of(name, ("true", "false", "True", "False")) or "").lower() == "true"

    def _file(self) -> BinaryIO:
        values = self._values("file")
        if not values:
            raise bad_request("Missing required parameter: 'file'.", "file", MISSING)
        if len(values) > 1 or not isinstance(values[0], UploadFile):
            raise bad_request("Invalid type for 'file': expected one file.", "file", "invalid_type")
        return values[0].file

    def _texts(self, name: str) -> list[str]:
        values = self._values(name)
        if not all(isinstance(value, str) for value in values):
            raise bad_request(f"Invalid type for '{name}': expected texts.", name, "invalid_type")
        return values

    def _prompt(self) -> str:
        """The prompt, with the keywords before it: to Whisper both are text that went before."""
        keywords = ", ".join(self._texts("keywords"))
        return (
            f"{keywords}. {self._text('prompt') or ''}" if keywords else self._text("prompt") or ""
        )

    def _check_languages(self) -> None:
        """One of several languages that may be spoken is enough."""
        for name, told in (
            ("language", [self.language] if self.language else []),
            ("languages", self._texts("languages")),
        ):
            if told and not any(_ENGLISH.match(one) for one in told):
                raise bad_request(
                    f"Invalid value: '{told[0]}'. The model of this server knows only 'en'.", name
                )

    def _granularities(self) -> tuple[str, ...]:
        values = self._values("timestamp_granularities")
        for value in values:
            if value not in GRANULARITIES:
                raise bad_request(
                    f"Invalid value: '{value}'. Supported values are: 'word' and 'segment'.",
                    "timestamp_granularities",
                )
        if values and self.shape != "verbose_json":
            raise bad_request(
                "'timestamp_granularities' needs 'response_format' to be 'verbose_json'.",
                "timestamp_granularities",
            )
        return tuple(values) or ("segment",)

    def _includes_logprobs(self) -> bool:
        values = self._values("include")
        for value in values:
            if value != "logprobs":
                raise bad_request(f"Invalid value: '{value}'. Supported is: 'logprobs'.", "include")
        if values and self.shape != "json":
            raise bad_request("'include' needs 'response_format' to be 'json'.", "include")
        return bool(values)

    def _temperature(self) -> None:
        value = self._text("temperature")
        try:
            within = value is None or 0 <= float(value) <= 1
        except ValueError:
            within = False
        if not within:
            raise bad_request(
                f"Invalid value: '{value}'. A number from 0 to 1 is expected.", "temperature"
            )

    def _refuse_the_rest(self) -> None:
        known = {"file", "model", "response_format", "stream", "prompt", "language"}
        known |= {"languages", "keywords", "timestamp_granularities", "include", *ACCEPTED}
        for field in self._form:
            match = _FIELD.match(field)
            name = match.group(1) if match else field
            if name in known:
                continue
            if name in ("known_speaker_names", "known_speaker_references"):
                raise bad_request(f"'{name}' is not supported here.", name, "unsupported_value")
            raise bad_request(f"Unknown parameter: '{field}'.", field, "unknown_parameter")


class Transcription:
    """One recording on its way through the Transcriber."""

    def __init__(self, service: Service, wish: Wish) -> None:
        self._engine = service.engine
        self._wish = wish
        self._id = f"transcription-{secrets.token_hex(8)}"

    async def _heard(self) -> AsyncGenerator[Heard]:
        wish = self._wish
        windows = windows_of(read_audio(wish.file, INPUT_RATE_HZ))
        logged_s = 0.0
        try:
            async with aclosing(
                hear_all(
                    self._engine,
                    windows,
                    self._id,
                    language=wish.language,
                    prompt=wish.prompt,
                    word_times=wish.shape in TIMED,
                    token_logprobs=wish.logprobs,
                )
            ) as all_heard:
                async for heard in all_heard:
                    if heard.end_s - logged_s >= PROGRESS_S:
                        logged_s = heard.end_s
                        logger.info("%s: %d minutes are done", self._id, heard.end_s // 60)
                    yield heard
        except ContainerError as error:
            raise unreadable("file") from error

    async def whole(self) -> Response:
        """The transcript in the shape that was asked for. Raises ApiError."""
        texts: list[str] = []
        segments: list[Segment] = []
        words: list[dict[str, Any]] = []
        logprobs: list[dict[str, Any]] = []
        seconds = 0.0
        async with aclosing(self._heard()) as all_heard:
            async for heard in all_heard:
                seconds = heard.end_s
                if heard.text:
                    texts.append(heard.text)
                logprobs += _told_logprobs(heard)
                if self._wish.shape in TIMED:
                    segments += segments_of(heard)
                if "word" in self._wish.granularities:
                    words += [word.json() for word in words_of(heard)]
        if not seconds:
            raise unreadable("file")
        if self._wish.shape == "json":
            told = {"logprobs": logprobs} if self._wish.logprobs else {}
            return JSONResponse({"text": " ".join(texts), "usage": _usage(seconds), **told})
        return self._shaped(" ".join(texts), segments, words, seconds)

    def _shaped(
        self, text: str, segments: list[Segment], words: list[dict[str, Any]], seconds: float
    ) -> Response:
        match self._wish.shape:
            case "text":
                return PlainTextResponse(text + "\n")
            case "srt":
                return PlainTextResponse(srt(segments), media_type="application/x-subrip")
            case "vtt":
                return PlainTextResponse(vtt(segments), media_type="text/vtt")
        document: dict[str, Any] = {
            "task": "transcribe",
            "language": "english",
            "duration": round(seconds, 3),
            "text": text,
            "usage": _usage(seconds),
        }
        if "segment" in self._wish.granularities:
            document["segments"] = [one.json(at) for at, one in enumerate(segments)]
        if "word" in self._wish.granularities:
            document["words"] = words
        return JSONResponse(document)

    async def events(self) -> AsyncGenerator[bytes]:
        """The transcript while it is made."""
        texts: list[str] = []
        logprobs: list[dict[str, Any]] = []
        seconds = 0.0
        async with aclosing(self._heard()) as all_heard:
            async for heard in all_heard:
                seconds = heard.end_s
                if not heard.text:
                    continue
                delta = f" {heard.text}" if texts else heard.text
                texts.append(heard.text)
                found = _told_logprobs(heard)
                logprobs += found
                told = {"logprobs": found} if self._wish.logprobs else {}
                yield sse({"type": "transcript.text.delta", "delta": delta, **told})
        if not seconds:
            raise unreadable("file")
        told = {"logprobs": logprobs} if self._wish.logprobs else {}
        done = {"text": " ".join(texts), "usage": _usage(seconds), **told}
        yield sse({"type": "transcript.text.done", **done})


def _usage(seconds: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": round(seconds, 3)}


def _told_logprobs(heard: Heard) -> list[dict[str, Any]]:
    return [
        {"token": one.token, "bytes": list(one.token.encode()), "logprob": one.logprob}
        for one in heard.logprobs
    ]
