"""Qwen2.5-Omni through the whole server: its own `generate()`'s words, and a sound as long."""

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
from omni25_oracle import AUDIO, IMAGE, MAX_CODES, Generated25, Official25
from omni_oracle import png
from servers import scripted

from audio.encoding import encode_file
from audio.formats import PCM, AudioFormat
from audio.resample import resample_whole
from bench.client import open_client
from bench.clips import CLIP_RATE_HZ, load_clips
from bench.server import Server, start_server
from pipeline.messages import PICTURE, RECORDING, PromptItem
from pipeline.models.tiny_qwen2_5_omni import make_tiny_qwen2_5_omni
from pipeline.stages.omni_text import OmniTokenizer
from realtime.transcoding import MicrophoneDecoder

TOKENS = 10
SYSTEM = "Be brief."
RATE_HZ = 24_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "qwen2.5-omni"
    make_tiny_qwen2_5_omni(path)
    return path


@pytest.fixture(scope="module")
def official(folder: Path) -> Official25:
    return Official25(folder)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """Three processes of the model, and scripted ears beside them."""
    stages = scripted()
    model = {"model": str(folder)}
    for name, options in {
        "thinker": model | {"temperature": 0.0},
        "talker": model | {"greedy": True, "max_frames": MAX_CODES},
        "voicebox": model,
    }.items():
        stages[name] |= {"kind": f"qwen2_5_omni_{name}", "options": options}
    config = {"stages": stages, "instructions": SYSTEM, "voice": "ethan"}
    with start_server(config | {"watermark": {"enabled": False}}) as started:
        yield started


def ask(server: Server, content: Any) -> Any:
    """A chat with a spoken answer."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
        answer = client.chat.completions.create(
            model="sori",
            messages=[{"role": "user", "content": content}],
            modalities=["text", "audio"],
            audio={"voice": "ethan", "format": "wav"},
            max_tokens=TOKENS,
        )
    return answer


def check(folder: Path, answer: Any, wanted: Generated25) -> None:
    details = answer.usage.prompt_tokens_details
    assert answer.usage.prompt_tokens == len(wanted.prompt)
    assert details.audio_tokens == wanted.prompt.count(AUDIO)
    assert details.image_tokens == wanted.prompt.count(IMAGE)
    audio = answer.choices[0].message.audio
    assert audio.transcript == OmniTokenizer(folder).decode(wanted.tokens)
    with wave.open(io.BytesIO(base64.b64decode(audio.data))) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    check_sound(samples, wanted)


def check_sound(samples: NDArray[np.int16], wanted: Generated25) -> None:
    assert len(samples) == len(wanted.wave)
    assert np.abs(samples).max() > 300


def test_a_chat_is_answered_in_the_official_words(
    server: Server, folder: Path, official: Official25
) -> None:
    items = [PromptItem("system", SYSTEM), PromptItem("user", "hi there")]
    check(folder, ask(server, "hi there"), official.generate(items, TOKENS, "Ethan"))


def test_a_recording_in_a_chat_is_heard_and_not_written_down(
    server: Server, folder: Path, official: Official25
) -> None:
    samples = np.random.default_rng(2).integers(-9000, 9000, 30_000).astype(np.int16)
    item = PromptItem("user", f"What is that?\n{RECORDING}", recordings=(len(samples),))
    items = [PromptItem("system", SYSTEM), item]
    wanted = official.generate(items, TOKENS, "Ethan", recordings=[samples])
    sound = base64.b64encode(encode_file("wav", samples, 16_000)).decode()
    parts = [
        {"type": "text", "text": "What is that?"},
        {"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}},
    ]
    check(folder, ask(server, parts), wanted)


async def test_what_is_said_over_the_socket_is_heard(
    server: Server, folder: Path, official: Official25
) -> None:
    clip = next(one for one in load_clips() if 1500 <= one.speech_end_ms <= 4000)
    sent = resample_whole(clip.samples, CLIP_RATE_HZ, RATE_HZ).astype("<i2").tobytes()
    heard = MicrophoneDecoder(AudioFormat(PCM, RATE_HZ)).decode(sent)
    items = [
        PromptItem("system", SYSTEM),
        PromptItem("user", RECORDING, recordings=(len(heard),)),
    ]
    wanted = official.generate(items, TOKENS, "Ethan", recordings=[heard])
    session = {"max_output_tokens": TOKENS, "audio": {"input": {"turn_detection": None}}}
    async with open_client(server.realtime_url, session=session) as client:
        sound = base64.b64encode(sent).decode()
        await client.send({"type": "input_audio_buffer.append", "audio": sound})
        await client.send({"type": "input_audio_buffer.commit"})
        await client.send({"type": "response.create"})
        done = await client.wait_for("response.done")
        told = await client.wait_for("response.output_audio_transcript.done")
    assert done.event["response"]["status"] in ("completed", "incomplete")
    assert told.event["transcript"] == OmniTokenizer(folder).decode(wanted.tokens)
    pieces = [got.samples for got in client.events if got.samples is not None]
    check_sound(np.concatenate(pieces), wanted)
    given = done.event["response"]["usage"]["input_token_details"]
    assert given["audio_tokens"] == ((len(heard) + 159) // 160 + 1) // 2 // 2


@pytest.mark.parametrize("spoken", [False, True], ids=["alone", "beside a recording"])
async def test_a_picture_over_the_socket_is_seen(
    server: Server, folder: Path, official: Official25, spoken: bool
) -> None:
    random = np.random.default_rng(6)
    picture = random.integers(0, 256, (90, 70, 3)).astype(np.uint8)
    sent = random.integers(-9000, 9000, 30_000).astype("<i2").tobytes() if spoken else b""
    heard = MicrophoneDecoder(AudioFormat(PCM, RATE_HZ)).decode(sent)
    text = "\n".join(["What is that?", PICTURE, *([RECORDING] if spoken else [])])
    item = PromptItem(
        "user", text, recordings=(len(heard),) * spoken, pictures=(picture.shape[:2],)
    )
    wanted = official.generate(
        [PromptItem("system", SYSTEM), item],
        TOKENS,
        "Ethan",
        recordings=[heard] * spoken,
        pictures=[picture],
    )
    parts = [
        {"type": "input_text", "text": "What is that?"},
        {"type": "input_image", "image_url": png(picture)},
        {"type": "input_audio", "audio": base64.b64encode(sent).decode()},
    ]
    content = parts if spoken else parts[:2]
    async with open_client(server.realtime_url) as client:
        await client.update_session({"max_output_tokens": TOKENS})
        message = {"type": "message", "role": "user", "content": content}
        await client.send({"type": "conversation.item.create", "item": message})
        await client.send({"type": "response.create"})
        told = await client.wait_for("response.output_audio_transcript.done")
        done = await client.wait_for("response.done")
    assert told.event["transcript"] == OmniTokenizer(folder).decode(wanted.tokens)
    pieces = [got.samples for got in client.events if got.samples is not None]
    check_sound(np.concatenate(pieces), wanted)
    usage = done.event["response"]["usage"]
    sounds, pieces_seen = wanted.prompt.count(AUDIO), wanted.prompt.count(IMAGE)
    assert (sounds > 0, pieces_seen > 0) == (spoken, True)
    assert usage["input_tokens"] == len(wanted.prompt)
    assert usage["input_token_details"] == {
        "text_tokens": len(wanted.prompt) - sounds - pieces_seen,
        "audio_tokens": sounds,
        "image_tokens": pieces_seen,
        "cached_tokens": 0,
        "cached_tokens_details": {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0},
    }


def test_a_picture_and_a_recording_in_a_chat_are_seen_and_heard(
    server: Server, folder: Path, official: Official25
) -> None:
    random = np.random.default_rng(4)
    picture = random.integers(0, 256, (90, 70, 3)).astype(np.uint8)
    samples = random.integers(-9000, 9000, 20_000).astype(np.int16)
    text = f"{PICTURE}\nWhat is that?\n{RECORDING}"
    item = PromptItem("user", text, recordings=(len(samples),), pictures=(picture.shape[:2],))
    items = [PromptItem("system", SYSTEM), item]
    wanted = official.generate(items, TOKENS, "Ethan", recordings=[samples], pictures=[picture])
    sound = base64.b64encode(encode_file("wav", samples, 16_000)).decode()
    parts = [
        {"type": "image_url", "image_url": {"url": png(picture), "detail": "high"}},
        {"type": "text", "text": "What is that?"},
        {"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}},
    ]
    check(folder, ask(server, parts), wanted)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
        capabilities: Any = client.models.retrieve("sori").to_dict()["capabilities"]
    assert capabilities["input_modalities"] == ["text", "audio", "image"]
