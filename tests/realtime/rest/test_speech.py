"""`/v1/audio/speech` through the stock client."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from process_tree import wait_until
from servers import Serve, scripted

from audio.containers import load_audio
from audio.encoding import FILE_FORMATS
from bench.server import Server

TEXT = "One two three four five."


@pytest.mark.parametrize("kind", ["mp3", "wav", "flac", "opus", "aac", "pcm"])
def test_a_text_is_spoken_in_any_format(client: openai.OpenAI, kind: Any) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="coral", input=TEXT, response_format=kind
    ) as answer:
        data = b"".join(answer.iter_bytes())
        assert answer.headers["content-type"] == FILE_FORMATS[kind].media_type
        assert "content-length" not in answer.headers
    samples = np.frombuffer(data, np.int16) if kind == "pcm" else load_audio(data, 24_000)
    assert len(samples) / 24_000 == pytest.approx(len(TEXT) * 0.05, abs=0.15)
    assert np.abs(samples).max() > 1000


def test_mp3_is_what_is_sent_unless_asked(client: openai.OpenAI) -> None:
    answer = client.audio.speech.create(model="tts-1", voice={"id": "coral"}, input=TEXT)
    assert answer.response.headers["content-type"] == "audio/mpeg"


def test_speed_changes_the_length(client: openai.OpenAI) -> None:
    def seconds(speed: float) -> float:
        answer = client.audio.speech.create(
            model="tts-1", voice="coral", input=TEXT, response_format="pcm", speed=speed
        )
        return len(answer.content) / 48_000

    assert seconds(2.0) == pytest.approx(seconds(1.0) / 2, rel=0.05)


def test_events_carry_the_same_bytes_and_the_usage(scripted_server: Server) -> None:
    body = {"model": "tts-1", "voice": "coral", "input": TEXT, "response_format": "pcm"}
    url = f"{scripted_server.url}/v1/audio/speech"
    plain = httpx.post(url, json=body).content
    events: list[Any] = []
    with httpx.stream("POST", url, json=body | {"stream_format": "sse"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events += [json.loads(line[6:]) for line in answer.iter_lines() if line]
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == plain
    assert events[-1]["type"] == "speech.audio.done"
    usage = events[-1]["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"input": ""}, "input", "invalid_value"),
        ({"input": "x" * 4097}, "input", "invalid_value"),
        ({"input": None}, "input", "invalid_type"),
        ({"voice": 7}, "voice", "invalid_type"),
        ({"response_format": "ogg"}, "response_format", "invalid_value"),
        ({"speed": 0.1}, "speed", "invalid_value"),
        ({"speed": "fast"}, "speed", "invalid_type"),
        ({"stream_format": "ws"}, "stream_format", "invalid_value"),
        ({"model": "claude"}, "model", "model_not_found"),
        ({"foo": 1}, "foo", "unknown_parameter"),
    ],
)
def test_what_is_wrong_is_named(
    scripted_server: Server, change: dict[str, Any], param: str, code: str
) -> None:
    body = {"model": "tts-1", "voice": "coral", "input": TEXT} | change
    answer = httpx.post(f"{scripted_server.url}/v1/audio/speech", json=body)
    error = answer.json()["error"]
    assert answer.status_code == (404 if param == "model" else 400)
    assert (error["param"], error["code"]) == (param, code)


def test_a_text_without_a_word_is_an_empty_recording(client: openai.OpenAI) -> None:
    answer = client.audio.speech.create(
        model="tts-1", voice="coral", input=" ", response_format="wav"
    )
    assert len(load_audio(answer.content, 24_000)) < 24_000


def test_a_listener_who_leaves_gives_up_the_place(serve: Serve) -> None:
    # More speech than fits in the buffers on the way, made no faster than it is read.
    server = serve({"stages": scripted(talker={"char_ms": 60}), "max_rest_requests": 1})
    url = f"{server.url}/v1/audio/speech"
    body = {"model": "tts-1", "voice": "coral", "input": "word " * 800, "response_format": "pcm"}
    with httpx.stream("POST", url, json=body, timeout=20) as first:
        pieces = first.iter_bytes()
        next(pieces)
        assert httpx.post(url, json=body | {"input": "x"}).status_code == 429
    wait_until(lambda: httpx.post(url, json=body | {"input": "x"}).status_code == 200, 5, "a place")
