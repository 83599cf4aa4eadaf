"""`GET /openapi.json`: what the REST routes take and answer, for tools that read OpenAPI 3.1."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic.json_schema import models_json_schema

from audio.encoding import FILE_FORMATS
from realtime.rest.chat_request import ChatRequest
from realtime.rest.speech import SpeechRequest
from realtime.rest.transcriptions import GRANULARITIES, SHAPES

router = APIRouter()

Json = dict[str, Any]

SCHEMAS = "#/components/schemas/"

NULLABLE_TEXT: Json = {"type": ["string", "null"]}

ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": NULLABLE_TEXT,
                "code": NULLABLE_TEXT,
            },
        }
    },
}

MODEL: Json = {
    "type": "object",
    "required": ["id", "object", "created", "owned_by"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "model"},
        "created": {"type": "integer"},
        "owned_by": {"type": "string"},
        "capabilities": {"type": "object"},
        "watermark": {"type": ["object", "null"]},
    },
}

FORM: Json = {
    "type": "object",
    "required": ["file", "model"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "model": {"type": "string", "minLength": 1},
        "language": {"type": "string"},
        "languages[]": {"type": "array", "items": {"type": "string"}},
        "prompt": {"type": "string"},
        "keywords[]": {"type": "array", "items": {"type": "string"}},
        "response_format": {"enum": list(SHAPES)},
        "temperature": {"type": "number", "minimum": 0, "maximum": 1},
        "timestamp_granularities[]": {"type": "array", "items": {"enum": list(GRANULARITIES)}},
        "include[]": {"type": "array", "items": {"enum": ["logprobs"]}},
        "stream": {"enum": ["true", "false"]},
        "chunking_strategy": {"type": "string"},
    },
    "additionalProperties": False,
}

MARKED_FORM: Json = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "threshold": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    },
    "additionalProperties": False,
}

MARKED: Json = {
    "type": "object",
    "required": ["object", "detected", "p_value", "payload", "speed", "duration", "ranges"],
    "properties": {
        "object": {"const": "audio.watermark"},
        "detected": {"type": "boolean"},
        "p_value": {"type": "number", "minimum": 0, "maximum": 1},
        "payload": {"type": ["integer", "null"]},
        "speed": {"type": ["number", "null"]},
        "duration": {"type": "number"},
        "ranges": {"type": "array", "items": {"type": "object"}},
    },
}

EVENTS = "text/event-stream"

REFUSALS = {
    HTTPStatus.BAD_REQUEST: "Something in the request is wrong; `param` says what.",
    HTTPStatus.UNAUTHORIZED: "The key is wrong.",
    HTTPStatus.NOT_FOUND: "An unknown model, or an unknown audio id.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is longer than allowed.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is of another kind.",
    HTTPStatus.TOO_MANY_REQUESTS: "The server is at its limit; see Retry-After.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "A fault of the server.",
    HTTPStatus.SERVICE_UNAVAILABLE: "A model is loading, or its worker has died; see Retry-After.",
}


@router.get("/openapi.json")
async def openapi() -> JSONResponse:
    """The same for everybody, key or not."""
    return JSONResponse(openapi_document())


@cache
def openapi_document() -> Json:
    """The document, made once."""
    bodies, definitions = models_json_schema(
        [(ChatRequest, "validation"), (SpeechRequest, "validation")],
        ref_template=SCHEMAS + "{model}",
    )
    audio: Json = {kind.media_type: {} for kind in FILE_FORMATS.values()}
    spoken_json = {"application/json": bodies[SpeechRequest, "validation"]}
    form = {"multipart/form-data": FORM}
    objects = {"application/json": {"type": "object"}}
    texts: Json = {"text/plain": {}, "text/vtt": {}, "application/x-subrip": {}}
    chat = {"application/json": bodies[ChatRequest, "validation"]}
    models = {
        "type": "object",
        "required": ["object", "data"],
        "properties": {"object": {"const": "list"}, "data": {"items": _ref("Model")}},
    }
    named = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sori", "version": _version()},
        "security": [{}, {"key": []}],
        "paths": {
            "/v1/models": {"get": _operation("The models", {"application/json": models})},
            "/v1/models/{model}": {
                "parameters": [named],
                "get": _operation("A model", {"application/json": _ref("Model")}),
            },
            "/v1/chat/completions": {
                "post": _operation("An answer, in text or aloud", objects | {EVENTS: {}}, chat)
            },
            "/v1/audio/speech": {
                "post": _operation("A text, spoken", audio | {EVENTS: {}}, spoken_json)
            },
            "/v1/audio/transcriptions": {
                "post": _operation("What is said", objects | texts | {EVENTS: {}}, form)
            },
            "/v1/audio/watermark": {
                "post": _operation(
                    "Whether a recording carries this server's mark",
                    {"application/json": MARKED},
                    {"multipart/form-data": MARKED_FORM},
                )
            },
        },
        "components": {
            "schemas": {**definitions["$defs"], "Error": ERROR, "Model": MODEL},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(summary: str, answers: Json, takes: Json | None = None) -> Json:
    """answers, takes: schemas by media type."""
    told = {"application/json": {"schema": _ref("Error")}}
    operation: Json = {
        "summary": summary,
        "responses": {
            "200": {"description": summary, "content": _contents(answers)},
            **{
                str(int(status)): {"description": text, "content": told}
                for status, text in REFUSALS.items()
            },
        },
    }
    if takes is not None:
        operation["requestBody"] = {"required": True, "content": _contents(takes)}
    return operation


def _contents(schemas: Json) -> Json:
    return {kind: {"schema": schema} for kind, schema in schemas.items()}


def _ref(name: str) -> Json:
    return {"$ref": SCHEMAS + name}


def _version() -> str:
    try:
        return version("sori")
    except PackageNotFoundError:
        return "0"
