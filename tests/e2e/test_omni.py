"""An omni model through the whole server: what comes out is what its own `generate()` makes."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from numpy.typing import NDArray
from omni_oracle import MAX_FRAMES, Generated, Official, png
from servers import scripted

from audio.encoding import encode_file
from bench.client import open_client
from bench.server import Server, ServerError, start_server
from pipeline.messages import PICTURE, RECORDING, PromptItem
from pipeline.models.tiny_qwen3_omni import make_tiny_qwen3_omni
from pipeline.stages.omni_text import OmniTokenizer

TOKENS = 10
SYSTEM = "You are kind."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "qwen3-omni"
    make_tiny_qwen3_omni(path)
    return path


@pytest.fixture(scope="module")
def official(folder: Path) -> Official:
    return Official(folder)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """Three processes of the model, and scripted ears beside them."""
    model = {"model": str(folder)}
    options: dict[str, dict[str, Any]] = {
        "thinker": model | {"temperature": 0.0},
        "talker": model | {"greedy": True, "max_frames": MAX_FRAMES},
        "voicebox": model,
    }
    stages = scripted()
    for name, chosen in options.items():
        stages[name] |= {"kind": f"qwen3_omni_{name}", "options": chosen}
    config = {"stages": stages, "instructions": SYSTEM, "voice": "ethan"}
    with start_server(config | {"watermark": {"enabled": False}}) as started:
        yield started


def said(folder: Path, wanted: Generated) -> str:
    return OmniTokenizer(folder).decode(wanted.tokens)


def check_sound(samples: NDArray[np.int16], wanted: Generated) -> None:
    assert len(samples) == len(wanted.wave)
    assert np.abs(wanted.wave).max() > 0.01
    assert np.abs(samples / 32767 - wanted.wave).max() < 1e-4


TURNS = [
    [("system", "Be brief."), ("user", "hi there")],
    [("system", SYSTEM), ("user", "hello"), ("assistant", "hey you"), ("user", "and now?")],
]


@pytest.mark.parametrize("turns", TURNS, ids=["one turn", "several"])
def test_a_chat_is_answered_in_the_official_words_and_voice(
    server: Server, folder: Path, official: Official, turns: list[tuple[Any, str]]
) -> None:
    wanted = official.generate([PromptItem(*turn) for turn in turns], TOKENS, "ethan")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
        answer = client.chat.completions.create(
            model="sori",
            messages=[{"role": role, "content": text} for role, text in turns],
            modalities=["text", "audio"],
            audio={"voice": "ethan", "format": "wav"},
            max_tokens=TOKENS,
        )
    (choice,) = answer.choices
    assert choice.message.audio is not None
    assert choice.message.audio.transcript == said(folder, wanted)
    with wave.open(io.BytesIO(base64.b64decode(choice.message.audio.data))) as file:
        check_sound(np.frombuffer(file.readframes(file.getnframes()), "<i2"), wanted)


def test_a_recording_in_a_chat_is_heard_and_not_written_down(
    server: Server, folder: Path, official: Official
) -> None:
    samples = np.random.default_rng(2).integers(-9000, 9000, 30_000).astype(np.int16)
    item = PromptItem("user", f"What is that?\n{RECORDING}", recordings=(len(samples),))
    items = [PromptItem("system", SYSTEM), item]
    wanted = official.generate(items, TOKENS, "ethan", [samples])
    sound = base64.b64encode(encode_file("wav", samples, 16_000)).decode()
    parts: list[Any] = [
        {"type": "text", "text": "What is that?"},
        {"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}},
    ]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
        answer = client.chat.completions.create(
            model="sori",
            messages=[{"role": "user", "content": parts}],
            modalities=["text", "audio"],
            audio={"voice": "ethan", "format": "wav"},
            max_tokens=TOKENS,
        )
    (choice,) = answer.choices
    assert choice.message.audio is not None
    assert choice.message.audio.transcript == said(folder, wanted)
    with wave.open(io.BytesIO(base64.b64decode(choice.message.audio.data))) as file:
        check_sound(np.frombuffer(file.readframes(file.getnframes()), "<i2"), wanted)


def test_a_checkpoint_that_cannot_be_used_ends_the_server_with_a_reason(tmp_path: Path) -> None:
    stages = scripted()
    stages["talker"] |= {"kind": "qwen3_omni_talker", "options": {"model": str(tmp_path)}}
    with pytest.raises(ServerError, match=r"no checkpoint here") as refusal:
        with start_server({"stages": stages}, ready_timeout_s=60):
            pass
    assert "ended with code 1" in str(refusal.value)


async def test_a_realtime_reply_is_the_same(
    server: Server, folder: Path, official: Official
) -> None:
    items = [PromptItem("system", SYSTEM), PromptItem("user", "tell me about Seoul")]
    wanted = official.generate(items, TOKENS, "ethan")
    async with open_client(server.realtime_url) as client:
        await client.update_session({"max_output_tokens": TOKENS})
        turn = await client.ask(items[1].text)
    assert turn.failure is None
    assert turn.errors == []
    assert turn.reply is not None
    assert turn.reply.transcript == said(folder, wanted)
    heard = [got.samples for got in client.events if got.samples is not None]
    check_sound(np.concatenate(heard), wanted)


def test_text_alone_and_models_that_do_not_fit(
    server: Server, folder: Path, official: Official
) -> None:
    # Where a chat has no instructions, the server's stand.
    items = [PromptItem("system", SYSTEM), PromptItem("user", "only words")]
    wanted = official.generate(items, TOKENS, "ethan")
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        answer = client.chat.completions.create(
            model="sori",
            messages=[{"role": "user", "content": "only words"}],
            max_tokens=TOKENS,
        )
        assert answer.choices[0].message.content == said(folder, wanted)


def test_a_picture_in_a_chat_is_seen(server: Server, folder: Path, official: Official) -> None:
    picture = np.random.default_rng(4).integers(0, 256, (90, 70, 3)).astype(np.uint8)
    item = PromptItem("user", f"What is that?\n{PICTURE}", pictures=(picture.shape[:2],))
    items = [PromptItem("system", SYSTEM), item]
    wanted = official.generate(items, TOKENS, "ethan", pictures=[picture])
    parts: list[Any] = [
        {"type": "text", "text": f"What is {PICTURE}that?"},  # nobody else writes a place for one
        {"type": "image_url", "image_url": {"url": png(picture), "detail": "high"}},
    ]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
        answer = client.chat.completions.create(
            model="sori",
            messages=[{"role": "user", "content": parts}],
            modalities=["text", "audio"],
            audio={"voice": "ethan", "format": "wav"},
            max_tokens=TOKENS,
        )
        capabilities: Any = client.models.retrieve("sori").to_dict()["capabilities"]
    (choice,) = answer.choices
    assert choice.message.audio is not None
    assert choice.message.audio.transcript == said(folder, wanted)
    with wave.open(io.BytesIO(base64.b64decode(choice.message.audio.data))) as file:
        check_sound(np.frombuffer(file.readframes(file.getnframes()), "<i2"), wanted)
    assert capabilities["input_modalities"] == ["text", "audio", "image"]


@pytest.mark.parametrize(
    "url",
    ["data:image/png;base64,AAAA", "https://example.com/cat.png", "file:///etc/passwd", "", "%%"],
)
def test_what_is_no_picture_is_refused_by_its_place(server: Server, url: str) -> None:
    parts: list[Any] = [
        {"type": "text", "text": "What is that?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refusal:
            client.chat.completions.create(
                model="sori", messages=[{"role": "user", "content": parts}]
            )
    assert refusal.value.param == "messages[0].content[1].image_url.url"
    assert refusal.value.code == "invalid_image"


async def test_a_picture_over_the_socket_is_seen_and_a_bad_one_changes_nothing(
    server: Server, folder: Path, official: Official
) -> None:
    picture = np.random.default_rng(4).integers(0, 256, (90, 70, 3)).astype(np.uint8)
    text = "What is that?"
    item = PromptItem("user", f"{text}\n{PICTURE}", pictures=(picture.shape[:2],))
    wanted = official.generate(
        [PromptItem("system", SYSTEM), item], TOKENS, "ethan", pictures=[picture]
    )
    words = {"type": "input_text", "text": text}
    async with open_client(server.realtime_url) as client:
        await client.update_session({"max_output_tokens": TOKENS, "output_modalities": ["text"]})
        for url in ("data:image/png;base64,AAAA", png(picture)):
            content = [words, {"type": "input_image", "image_url": url}]
            message = {"type": "message", "role": "user", "content": content}
            await client.send({"type": "conversation.item.create", "item": message})
        await client.send({"type": "response.create"})
        done = (await client.wait_for("response.done")).event["response"]
        errors = [got.event["error"] for got in client.events if got.type == "error"]
        added = [got for got in client.events if got.type == "conversation.item.added"]
        await client.send(
            {"type": "conversation.item.retrieve", "item_id": added[0].event["item"]["id"]}
        )
        kept = (await client.wait_for("conversation.item.retrieved")).event["item"]
    assert [error["param"] for error in errors] == ["item.content[1].image_url"]
    assert done["output"][0]["content"][0]["text"] == said(folder, wanted)
    assert kept["content"] == [words, {"type": "input_image", "image_url": png(picture)}]


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("param", "value"),
    [
        ("tools", [TOOL]),
        ("response_format", {"type": "json_object"}),
        ("logprobs", True),
        ("logit_bias", {"5": 10}),
        ("frequency_penalty", 1.0),
        ("presence_penalty", -1.0),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_chat_cannot_have_is_refused_by_name(
    server: Server, param: str, value: object, stream: bool
) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refusal:
            client.chat.completions.create(
                model="sori",
                messages=[{"role": "user", "content": "hi"}],
                stream=stream,
                extra_body={param: value},
            )
    assert (refusal.value.param, refusal.value.code) == (param, "unsupported_value")


@pytest.mark.parametrize("form", ["audio", "sse"])
def test_a_given_text_is_not_read_out(server: Server, form: Any) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refusal:
            client.audio.speech.create(
                model="sori", input="Hello.", voice="ethan", stream_format=form
            )
        capabilities: Any = client.models.retrieve("sori").to_dict()["capabilities"]
    assert (refusal.value.param, refusal.value.code) == ("model", "unsupported_value")
    assert capabilities["speech"] is capabilities["tools"] is False
    assert capabilities["response_format"] == ["text"]


FUNCTION = {"type": "function", "name": "look", "parameters": {"type": "object"}}
FAST: dict[str, Any] = {"audio": {"output": {"speed": 1.5}}}


async def test_what_a_session_cannot_have_is_refused_by_its_place(server: Server) -> None:
    events: list[tuple[str, dict[str, Any]]] = [
        ("session.tools", {"type": "session.update", "session": {"tools": [FUNCTION]}}),
        ("session.audio.output.speed", {"type": "session.update", "session": FAST}),
        ("response.tools", {"type": "response.create", "response": {"tools": [FUNCTION]}}),
    ]
    async with open_client(server.realtime_url) as client:
        await client.update_session({"max_output_tokens": TOKENS})
        for param, event in events:
            if "session" in event:
                event["session"]["type"] = "realtime"
            since = len(client.events)
            await client.send(event)
            refused = await client.wait_for("error", since=since)
            assert refused.event["error"]["param"] == param
            assert refused.event["error"]["code"] == "unsupported_value"
        turn = await client.ask("are you still there?")  # and nothing else has changed
    assert turn.failure is None
    assert turn.reply is not None
    assert len(turn.reply.audio) > 0


@pytest.mark.parametrize(
    ("param", "session"),
    [("session.tools", {"tools": [FUNCTION]}), ("session.audio.output.speed", FAST)],
)
def test_nor_can_a_client_secret(server: Server, param: str, session: Any) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refusal:
            wanted: Any = {"type": "realtime", **session}
            client.realtime.client_secrets.create(session=wanted)
    assert refusal.value.param == param
