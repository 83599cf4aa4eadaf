"""`/v1/audio/transcriptions` through the stock client."""

from __future__ import annotations

import io
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import soundfile

from audio.encoding import encode_file
from bench.server import Server

HEARD = "Hello there."


def tone(seconds: float = 1.0, kind: str = "wav") -> tuple[str, bytes]:
    samples = (np.sin(np.arange(int(seconds * 16_000)) / 5) * 8000).astype(np.int16)
    return f"tone.{kind}", encode_file(kind, samples, 16_000)


@pytest.mark.parametrize("kind", ["wav", "mp3", "flac", "opus", "aac"])
def test_a_recording_of_any_kind_is_transcribed(client: openai.OpenAI, kind: str) -> None:
    answer = client.audio.transcriptions.create(model="whisper-1", file=tone(kind=kind))
    assert answer.text == HEARD
    usage: Any = answer.usage
    assert usage.type == "duration"
    assert usage.seconds == pytest.approx(1.0, abs=0.15)


def test_every_shape(client: openai.OpenAI) -> None:
    def transcribe(shape: Any, **more: Any) -> Any:
        return client.audio.transcriptions.create(
            model="whisper-1", file=tone(), response_format=shape, **more
        )

    assert transcribe("json").text == HEARD
    assert transcribe("text") == HEARD + "\n"
    srt = "1\n00:00:00,000 --> 00:00:01,000\nHello there.\n\n"
    assert transcribe("srt") == srt
    assert transcribe("vtt") == "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nHello there.\n\n"
    verbose = transcribe("verbose_json")
    assert (verbose.text, verbose.language, verbose.words) == (HEARD, "english", None)
    assert [segment.text for segment in verbose.segments] == [" Hello there."]
    words = transcribe("verbose_json", timestamp_granularities=["word"])
    assert [word.word for word in words.words] == ["Hello", "there."]
    assert words.segments is None


def test_a_stream_tells_what_it_has(client: openai.OpenAI) -> None:
    events: list[Any] = list(
        client.audio.transcriptions.create(model="gpt-4o-transcribe", file=tone(65.0), stream=True)
    )
    assert {event.type for event in events[:-1]} == {"transcript.text.delta"}
    assert 65 / 14 < len(events[:-1]) <= 65 / 10  # a window each, cut in its last four seconds
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == "".join(event.delta for event in events[:-1])


def test_fields_that_clients_send(client: openai.OpenAI) -> None:
    answer = client.audio.transcriptions.create(
        model="whisper-1",
        file=tone(),
        language="en",
        prompt="Names: Sori.",
        temperature=0,
        chunking_strategy="auto",
        extra_body={"languages": ["fr", "en"], "keywords": ["Sori", "Hibari"]},
    )
    assert answer.text == HEARD


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"file": ("a.wav", b"")}, 400, "file"),
        ({"file": ("a.wav", b"no sound at all, only words")}, 400, "file"),
        ({"file": ("a.mp3", tone(kind="mp3")[1][:40])}, 400, "file"),
        ({"file": ("a.wav", tone()[1][:44])}, 400, "file"),
        ({"model": "claude"}, 404, "model"),
        ({"language": "fr"}, 400, "language"),
        ({"extra_body": {"languages": ["fr", "de"]}}, 400, "languages"),
        ({"response_format": "diarized_json"}, 400, "response_format"),
        ({"temperature": 2}, 400, "temperature"),
        ({"timestamp_granularities": ["word"]}, 400, "timestamp_granularities"),
        ({"include": ["tokens"]}, 400, "include"),
        ({"include": ["logprobs"], "response_format": "text"}, 400, "include"),
        ({"extra_body": {"foo": "bar"}}, 400, "foo"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_wrong_is_named(
    client: openai.OpenAI, change: dict[str, Any], status: int, param: str, stream: bool
) -> None:
    wish: dict[str, Any] = {"model": "whisper-1", "file": tone(), "stream": stream} | change
    with pytest.raises(openai.APIStatusError) as refused:
        list(client.audio.transcriptions.create(**wish))
    body: Any = refused.value.body
    assert (refused.value.status_code, body["param"]) == (status, param)


def wav_file(subtype: str, seconds: float = 1.0) -> bytes:
    samples = np.sin(np.arange(int(seconds * 16_000)) / 5) * 0.25
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, subtype, format="WAV")
    return file.getvalue()


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW"])
def test_wav_of_any_width_is_read(client: openai.OpenAI, subtype: str) -> None:
    file = ("tone.wav", wav_file(subtype))
    answer: Any = client.audio.transcriptions.create(model="whisper-1", file=file)
    assert (answer.text, answer.usage.seconds) == (HEARD, pytest.approx(1.0, abs=0.01))


@pytest.mark.parametrize("told_nbytes", [0x7FFF_FFF0, 10 * 3600 * 32_000, 0xFFFF_FFFF])
def test_a_header_that_tells_hours_is_not_believed(client: openai.OpenAI, told_nbytes: int) -> None:
    data = bytearray(tone()[1])
    data[40:44] = told_nbytes.to_bytes(4, "little")
    answer: Any = client.audio.transcriptions.create(
        model="whisper-1", file=("long.wav", bytes(data))
    )
    assert (answer.text, answer.usage.seconds) == (HEARD, pytest.approx(1.0, abs=0.01))


def test_of_a_file_that_breaks_off_the_beginning_is_heard(client: openai.OpenAI) -> None:
    for kind in ("mp3", "flac", "opus", "aac"):
        data = tone(10.0, kind)[1]
        answer: Any = client.audio.transcriptions.create(
            model="whisper-1", file=(f"half.{kind}", data[: len(data) // 2])
        )
        assert 2 < answer.usage.seconds < 8


def test_forms_that_are_none(scripted_server: Server) -> None:
    url = f"{scripted_server.url}/v1/audio/transcriptions"
    wav = ("tone.wav", tone()[1])

    def refused(**request: Any) -> tuple[int, Any]:
        answer = httpx.post(url, **request)
        return answer.status_code, answer.json()["error"]["param"]

    assert refused(json={"model": "whisper-1"}) == (415, None)
    assert refused(files={"file": wav}) == (400, "model")
    assert refused(files={"model": (None, "whisper-1")}) == (400, "file")
    assert refused(files={"file": (None, "text"), "model": (None, "whisper-1")}) == (400, "file")
    broken = {"content-type": "multipart/form-data; boundary=x"}
    assert refused(content=b"--y nonsense", headers=broken)[0] == 400
    assert refused(content=b"", headers={"content-type": "multipart/form-data"})[0] == 400


def test_a_file_beyond_the_limit_is_refused_while_it_comes(scripted_server: Server) -> None:
    url = f"{scripted_server.url}/v1/audio/transcriptions"
    head = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\n"
    )
    sent = 0

    def endless() -> Any:
        nonlocal sent
        yield head
        for _ in range(4096):
            sent += 1
            yield bytes(64 * 1024)

    headers = {"content-type": "multipart/form-data; boundary=x"}
    answer = httpx.post(url, content=endless(), headers=headers)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"


def test_translations_are_refused_by_name(scripted_server: Server) -> None:
    answer = httpx.post(
        f"{scripted_server.url}/v1/audio/translations",
        files={"file": tone(), "model": (None, "whisper-1")},
    )
    assert answer.status_code == 400
    assert "English only" in answer.json()["error"]["message"]
