"""Chat Completions through the stock client, whose types judge every answer."""

from __future__ import annotations

import base64
import io
import json
from typing import Any, cast

import httpx
import numpy as np
import openai
import pytest
import soundfile
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from process_tree import wait_until
from servers import Serve, scripted
from speech_scoring import recordings

from audio.containers import load_audio
from audio.encoding import encode_file
from bench.server import Server

TEXT = "Hello. It is good to hear your voice."
HELLO: list[Any] = [{"role": "user", "content": "Hello."}]
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


def wav(seconds: float = 1.0, loud: int = 8000) -> bytes:
    tone = (np.sin(np.arange(int(seconds * 16_000)) / 5) * loud).astype(np.int16)
    return encode_file("wav", tone, 16_000)


def spoken(data: bytes, kind: str = "wav") -> list[Any]:
    audio = {"data": base64.b64encode(data).decode(), "format": kind}
    return [{"role": "user", "content": [{"type": "input_audio", "input_audio": audio}]}]


def strict(answer: ChatCompletion | ChatCompletionChunk) -> None:
    """The client builds its objects without looking; this looks."""
    type(answer).model_validate(json.loads(answer.model_dump_json()), strict=False)


# -- text ------------------------------------------------------------------------------------------


def test_a_question_is_answered(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="sori", messages=HELLO)
    strict(answer)
    (choice,) = answer.choices
    assert choice.message.content == TEXT
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.id.startswith("chatcmpl-")


def test_a_stream_adds_up_to_the_same(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="sori", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
    )
    for chunk in chunks:
        strict(chunk)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == TEXT
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_clients_own_helper_reads_the_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="sori", messages=HELLO) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.content == TEXT


def test_several_choices_whole_and_streamed(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="sori", messages=HELLO, n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(model="sori", messages=HELLO, n=3, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [TEXT] * 3


def test_a_limit_is_told(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="sori", messages=HELLO, max_completion_tokens=2)
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.content == "Hello. It"


def test_fields_without_effect_are_taken(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="gpt-4o",
        messages=[
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": "Hi", "name": "Ann"},
            {"role": "assistant", "content": "Hello", "refusal": None},
            {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
        ],
        store=True,
        metadata={"a": "b"},
        user="me",
        reasoning_effort="low",
        service_tier="auto",
        extra_body={"latency_first": False, "extra_body": {"latency_first": True}},
    )
    assert answer.model == "gpt-4o"
    assert answer.choices[0].message.content == TEXT


# -- tools -----------------------------------------------------------------------------------------


def test_calls_come_whole(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="sori", messages=HELLO, tools=TOOLS)
    strict(answer)
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    calls: Any = choice.message.tool_calls
    assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Paris", "Seoul"]
    assert len({call.id for call in calls}) == 2


def test_calls_come_in_pieces_that_the_helper_joins(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="sori", messages=HELLO, tools=TOOLS) as stream:
        for _ in stream:
            pass
        calls: Any = stream.get_final_completion().choices[0].message.tool_calls
    assert [call.function.arguments for call in calls] == ['{"city": "Paris"}', '{"city": "Seoul"}']


def test_results_of_calls_are_answered(client: openai.OpenAI) -> None:
    first = client.chat.completions.create(model="sori", messages=HELLO, tools=TOOLS)
    calls: Any = first.choices[0].message.tool_calls
    results = [{"role": "tool", "tool_call_id": call.id, "content": "Sunny"} for call in calls]
    messages: list[Any] = [*HELLO, first.choices[0].message, *results]
    answer = client.chat.completions.create(model="sori", messages=messages, tools=TOOLS)
    assert answer.choices[0].message.content == TEXT


# -- speech ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["wav", "mp3", "flac", "opus", "aac", "pcm16"])
def test_an_answer_is_spoken_in_any_format(client: openai.OpenAI, kind: Any) -> None:
    answer = client.chat.completions.create(
        model="sori",
        messages=HELLO,
        modalities=["text", "audio"],
        audio={"voice": "coral", "format": kind},
    )
    strict(answer)
    message = answer.choices[0].message
    assert message.content is None
    assert message.audio is not None
    assert message.audio.transcript == TEXT
    data = base64.b64decode(message.audio.data)
    samples = np.frombuffer(data, np.int16) if kind == "pcm16" else load_audio(data, 24_000)
    assert len(samples) / 24_000 == pytest.approx(len(TEXT) * 0.05, abs=0.3)
    assert np.abs(samples).max() > 1000
    details: Any = answer.usage and answer.usage.completion_tokens_details
    assert details.audio_tokens == pytest.approx(len(samples) / 1200, abs=6)


def test_a_spoken_stream_joins_to_one_recording(client: openai.OpenAI) -> None:
    data, transcript, ids, expiries, finish = "", "", [], [], None
    for chunk in client.chat.completions.create(
        model="sori",
        messages=HELLO,
        stream=True,
        modalities=["text", "audio"],
        audio={"voice": "coral", "format": "pcm16"},
    ):
        strict(chunk)
        (choice,) = chunk.choices
        finish = choice.finish_reason or finish
        audio: Any = getattr(choice.delta, "audio", None)
        if audio is None:
            continue
        data += audio.data or ""
        transcript += audio.transcript or ""
        ids += [audio.id] if audio.id else []
        expiries += [audio.expires_at] if audio.expires_at else []
    samples = np.frombuffer(base64.b64decode(data), np.int16)
    assert len(samples) / 24_000 == pytest.approx(len(TEXT) * 0.05, abs=0.05)
    assert (transcript, len(ids), len(expiries), finish) == (TEXT, 1, 1, "stop")


def test_a_spoken_answer_can_be_referred_to_by_its_id(client: openai.OpenAI) -> None:
    first = client.chat.completions.create(
        model="sori",
        messages=HELLO,
        modalities=["text", "audio"],
        audio={"voice": "coral", "format": "wav"},
    )
    audio = first.choices[0].message.audio
    assert audio is not None
    messages: list[Any] = [*HELLO, {"role": "assistant", "audio": {"id": audio.id}}, *HELLO]
    answer = client.chat.completions.create(model="sori", messages=messages)
    with_text: list[Any] = [*HELLO, {"role": "assistant", "content": TEXT}, *HELLO]
    same = client.chat.completions.create(model="sori", messages=with_text)
    assert answer.usage is not None
    assert same.usage is not None
    assert answer.usage.prompt_tokens == same.usage.prompt_tokens


@pytest.mark.parametrize("kind", ["wav", "mp3", "flac", "opus", "pcm16"])
def test_recordings_are_heard_in_any_format(client: openai.OpenAI, kind: str) -> None:
    tone = (np.sin(np.arange(24_000) / 5) * 8000).astype(np.int16)
    data = encode_file(kind.removesuffix("16"), tone, 24_000)
    answer = client.chat.completions.create(model="sori", messages=spoken(data, kind))
    assert answer.usage is not None
    # "Hello there." and the instructions.
    assert answer.usage.prompt_tokens > 10
    details: Any = answer.usage.prompt_tokens_details
    assert details.audio_tokens == pytest.approx(10, abs=1)


def test_base64_may_be_wrapped_or_a_data_url(client: openai.OpenAI) -> None:
    text = base64.encodebytes(wav()).decode()
    for data in (text, "data:audio/wav;base64," + text):
        audio = {"data": data, "format": "wav"}
        message = {"role": "user", "content": [{"type": "input_audio", "input_audio": audio}]}
        client.chat.completions.create(model="sori", messages=cast(Any, [message]))


@pytest.mark.parametrize(
    ("subtype", "rate_hz", "channels"),
    [("PCM_U8", 8_000, 1), ("PCM_24", 44_100, 2), ("FLOAT", 48_000, 2), ("PCM_32", 16_000, 1)],
)
def test_wav_files_of_any_kind_are_heard(
    client: openai.OpenAI, subtype: str, rate_hz: int, channels: int
) -> None:
    tone = np.sin(np.arange(rate_hz) * 2500 / rate_hz)[:, None].repeat(channels, axis=1) * 0.3
    file = io.BytesIO()
    soundfile.write(file, tone, rate_hz, format="WAV", subtype=subtype)
    client.chat.completions.create(model="sori", messages=spoken(file.getvalue()))


# -- bad input -------------------------------------------------------------------------------------


def lying(seconds: int) -> bytes:
    """A second of sound under a header that promises more."""
    data = bytearray(wav())
    data[40:44] = min(seconds * 32_000, 0xFFFF_FFFE).to_bytes(4, "little")
    return bytes(data)


def test_a_header_that_lies_is_not_believed(client: openai.OpenAI) -> None:
    client.chat.completions.create(model="sori", messages=spoken(lying(36_000)))


AUDIO_DATA = "messages[0].content[0].input_audio.data"
IMAGE = {"type": "image_url", "image_url": {"url": "x"}}

BAD: list[tuple[dict[str, Any], int, str | None, str]] = [
    ({"messages": []}, 400, "messages", "invalid_value"),
    ({"messages": "hi"}, 400, "messages", "invalid_type"),
    ({"messages": None}, 400, "messages", "invalid_type"),
    ({"messages": [{"role": "robot", "content": ""}]}, 400, "messages[0].role", "invalid_value"),
    ({"messages": [{"role": "user"}]}, 400, "messages[0].content", "missing_required_parameter"),
    (
        {"messages": [{"role": "assistant"}]},
        400,
        "messages[0].content",
        "missing_required_parameter",
    ),
    ({"messages": spoken(b"not audio")}, 400, AUDIO_DATA, "invalid_value"),
    ({"messages": spoken(wav()[:30])}, 400, AUDIO_DATA, "invalid_value"),
    ({"messages": spoken(wav(0.0))}, 400, AUDIO_DATA, "invalid_value"),
    ({"messages": spoken(wav(21.0))}, 400, AUDIO_DATA, "invalid_value"),
    ({"messages": spoken(b"abc", "pcm16")}, 400, AUDIO_DATA, "invalid_value"),
    (
        {"messages": spoken(wav(), "midi")},
        400,
        "messages[0].content[0].input_audio.format",
        "invalid_value",
    ),
    (
        {"messages": [{"role": "user", "content": [IMAGE]}]},
        400,
        "messages[0].content[0]",
        "unsupported_value",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "x"}}]}]},
        400,
        "messages[0].content[0]",
        "unsupported_value",
    ),
    (
        {"messages": [{"role": "assistant", "audio": {"id": "audio_x"}}]},
        404,
        "messages[0].audio.id",
        "audio_not_found",
    ),
    (
        {"messages": [{"role": "tool", "content": "", "tool_call_id": "x"}]},
        400,
        "messages[0].tool_call_id",
        "invalid_value",
    ),
    ({"model": "claude"}, 404, "model", "model_not_found"),
    ({"model": None}, 400, "model", "invalid_type"),
    ({"temperature": 5}, 400, "temperature", "invalid_value"),
    ({"temperature": "hot"}, 400, "temperature", "invalid_type"),
    ({"n": 1000}, 400, "n", "invalid_value"),
    ({"n": 0}, 400, "n", "invalid_value"),
    ({"stop": ["a"] * 5}, 400, "stop", "invalid_value"),
    ({"logit_bias": {"x": 1}}, 400, "logit_bias", "invalid_value"),
    ({"logit_bias": {"1": 101}}, 400, "logit_bias.1", "invalid_value"),
    ({"logit_bias": {"9" * 5000: 1}}, 400, "logit_bias", "invalid_value"),
    ({"logit_bias": {"١٢": 1}}, 400, "logit_bias", "invalid_value"),
    ({"max_tokens": 2**31}, 400, "max_tokens", "invalid_value"),
    ({"max_completion_tokens": 2**63}, 400, "max_completion_tokens", "invalid_value"),
    ({"stop": ""}, 400, "stop", "invalid_value"),
    ({"stop": ["a", ""]}, 400, "stop[1]", "invalid_value"),
    ({"messages": [0] * 2000}, 400, None, "invalid_value"),
    ({"messages": [0] * 100_000}, 400, None, "invalid_value"),
    ({str(key): 0 for key in range(100_000)}, 400, None, "invalid_value"),
    ({"top_logprobs": 2}, 400, "top_logprobs", "invalid_value"),
    ({"stream_options": {"include_usage": True}}, 400, "stream_options", "invalid_value"),
    ({"foo": 1}, 400, "foo", "unknown_parameter"),
    ({"modalities": ["text", "audio"]}, 400, "audio", "missing_required_parameter"),
    ({"modalities": ["video"]}, 400, "modalities[0]", "invalid_value"),
    (
        {"modalities": ["audio"], "audio": {"voice": "a", "format": "wav"}},
        400,
        "modalities",
        "invalid_value",
    ),
    (
        {"modalities": ["text", "audio"], "audio": {"voice": "a"}},
        400,
        "audio.format",
        "missing_required_parameter",
    ),
    (
        {"modalities": ["text", "audio"], "audio": {"format": "wav"}},
        400,
        "audio.voice",
        "missing_required_parameter",
    ),
    (
        {"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "midi"}},
        400,
        "audio.format",
        "invalid_value",
    ),
    (
        {"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "wav"}, "stream": True},
        400,
        "audio.format",
        "unsupported_value",
    ),
    (
        {"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "wav"}, "n": 2},
        400,
        "n",
        "unsupported_value",
    ),
    ({"tools": [{"type": "function"}]}, 400, "tools[0].function", "missing_required_parameter"),
    (
        {"tools": [{"type": "function", "function": {"name": "a b"}}]},
        400,
        "tools[0].function.name",
        "invalid_value",
    ),
    ({"tools": TOOLS * 2}, 400, "tools[1]", "invalid_value"),
    ({"tool_choice": "required"}, 400, "tool_choice", "invalid_value"),
    (
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}},
        400,
        "tool_choice",
        "invalid_value",
    ),
    ({"response_format": {"type": "yaml"}}, 400, "response_format.type", "invalid_value"),
    (
        {"response_format": {"type": "json_schema"}},
        400,
        "response_format.json_schema",
        "missing_required_parameter",
    ),
]


@pytest.mark.parametrize(("change", "status", "param", "code"), BAD)
def test_what_is_wrong_is_named(
    scripted_server: Server, change: dict[str, Any], status: int, param: str | None, code: str
) -> None:
    body = {"model": "sori", "messages": HELLO} | change
    answer = httpx.post(f"{scripted_server.url}/v1/chat/completions", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (status, param, code)
    assert error["message"]
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("content", "kind", "status", "code"),
    [
        (b"{", "application/json", 400, "invalid_json"),
        (b"[]", "application/json", 400, "invalid_type"),
        (b"\xff\xfe", "application/json", 400, "invalid_json"),
        (b"{}", "text/plain", 415, "unsupported_content_type"),
        (b"{}", "", 415, "unsupported_content_type"),
        (b" " * (1 << 20) + b"{}", "application/json", 413, "request_too_large"),
    ],
)
def test_bodies_that_are_no_request(
    scripted_server: Server, content: bytes, kind: str, status: int, code: str
) -> None:
    for chunked in (False, True):
        answer = httpx.post(
            f"{scripted_server.url}/v1/chat/completions",
            content=iter([content]) if chunked else content,
            headers={"content-type": kind},
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


# -- limits ----------------------------------------------------------------------------------------


def test_a_full_server_says_when_to_come_back(serve: Serve) -> None:
    slow = scripted(thinker={"text": "word " * 50, "token_ms": 50})
    server = serve({"stages": slow, "max_rest_requests": 1})
    url = f"{server.url}/v1/chat/completions"
    body = {"model": "sori", "messages": HELLO, "stream": True}
    with httpx.stream("POST", url, json=body, timeout=20) as first:
        pieces = first.iter_bytes()
        next(pieces)
        refused = httpx.post(url, json={"model": "sori", "messages": HELLO})
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    # The client has left in the middle: its place is free again.
    wait_until(
        lambda: httpx.post(url, json=body | {"max_tokens": 1}).status_code == 200, 10, "a place"
    )


def test_a_client_that_does_not_wait_costs_nothing_more(serve: Serve) -> None:
    slow = scripted(thinker={"text": "word " * 200, "token_ms": 50})
    server = serve({"stages": slow, "max_rest_requests": 1})
    url = f"{server.url}/v1/chat/completions"
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(url, json={"model": "sori", "messages": HELLO}, timeout=0.5)
    body = {"model": "sori", "messages": HELLO, "max_tokens": 1}
    wait_until(lambda: httpx.post(url, json=body).status_code == 200, 5, "a place")
    assert "Traceback" not in server.log()


def test_a_request_that_fails_in_the_engine_is_the_servers_fault(serve: Serve) -> None:
    server = serve({"stages": scripted(thinker={"faults": {"boom": "raise"}})})
    url = f"{server.url}/v1/chat/completions"
    messages = [{"role": "user", "content": "boom"}]
    for stream in (False, True):
        answer = httpx.post(url, json={"model": "sori", "messages": messages, "stream": stream})
        assert answer.status_code == 500
        assert answer.json()["error"]["code"] == "scripted_fault"


def test_a_worker_that_dies_is_a_reason_to_try_again_but_not_for_ever(serve: Serve) -> None:
    server = serve({"stages": scripted(thinker={"faults": {"boom": "crash"}})})
    url = f"{server.url}/v1/chat/completions"
    body = {"model": "sori", "messages": [{"role": "user", "content": "boom"}]}
    for stream in (False, True):
        answer = httpx.post(url, json=body | {"stream": stream})
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        error = answer.json()["error"]
        assert (error["type"], error["code"]) == ("server_error", "worker_died")
        wait_until(lambda: httpx.get(f"{server.url}/ready").status_code == 200, 10, "the worker")
    refused = httpx.post(url, json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "poisoned_request"
    assert httpx.post(url, json=body | {"messages": HELLO}).status_code == 200


def test_keys_do_not_share_what_was_said(serve: Serve) -> None:
    server = serve({"stages": scripted(), "api_keys": ["one", "two"]})

    def ask(key: str, messages: list[Any]) -> Any:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
            return client.chat.completions.create(
                model="sori",
                messages=messages,
                modalities=["text", "audio"],
                audio={"voice": "coral", "format": "pcm16"},
            )

    audio_id = ask("one", HELLO).choices[0].message.audio.id
    past: list[Any] = [{"role": "assistant", "audio": {"id": audio_id}}, *HELLO]
    ask("one", past)
    with pytest.raises(openai.NotFoundError) as refused:
        ask("two", past)
    assert audio_id in str(refused.value)
    with pytest.raises(openai.AuthenticationError):
        ask("three", HELLO)


def test_human_speech_is_no_longer_than_its_recording(client: openai.OpenAI) -> None:
    clip = next(r for r in recordings() if r.name == "go_forward.wav")
    data = encode_file("wav", clip.samples, 16_000)
    answer = client.chat.completions.create(model="sori", messages=spoken(data))
    details: Any = answer.usage and answer.usage.prompt_tokens_details
    assert details.audio_tokens == -(-len(clip.samples) // 1600)
