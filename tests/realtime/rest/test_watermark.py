"""`POST /v1/audio/watermark`, and what `/v1/models` tells."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import openai
import pytest
from servers import Serve, scripted

from audio.encoding import encode_file
from audio.watermark.embedder import Embedder
from bench.server import Server

KEY = "a key of these tests"
PAYLOAD = 4711


@pytest.fixture(scope="module")
def wav() -> bytes:
    """Seven seconds of noise in syllables, marked."""
    random = np.random.default_rng(1)
    loudness = np.repeat(random.uniform(0.02, 1.0, 70), 2400)
    samples = np.rint(random.standard_normal(len(loudness)) * loudness * 5000).astype(np.int16)
    embedder = Embedder(KEY.encode(), PAYLOAD)
    marked = np.concatenate([embedder.process(samples), embedder.flush()])
    return encode_file("wav", marked, 24_000)


def ask(server: Server, wav: bytes, **form: str) -> httpx.Response:
    files = {"file": ("speech.wav", wav)}
    return httpx.post(f"{server.url}/v1/audio/watermark", files=files, data=form, timeout=30)


def marking(**watermark: Any) -> dict[str, Any]:
    return {"stages": scripted(), "watermark": {"key": KEY, "payload": PAYLOAD, **watermark}}


def test_a_mark_is_read_and_another_key_reads_none(serve: Serve, wav: bytes) -> None:
    found = ask(serve(marking()), wav).json()
    assert found["object"] == "audio.watermark"
    assert found["detected"] is True
    assert found["payload"] == PAYLOAD
    assert found["p_value"] < 1e-6
    assert found["duration"] == pytest.approx(7)
    assert [one["payload"] for one in found["ranges"]] == [PAYLOAD]

    other = ask(serve(marking(key="another")), wav).json()
    assert (other["detected"], other["payload"], other["ranges"]) == (False, None, [])


def test_the_threshold_is_the_clients(serve: Serve, wav: bytes) -> None:
    server = serve(marking(key="another"))
    assert ask(server, wav, threshold="0.999999").json()["detected"] is True


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"threshold": "0"}, "threshold"),
        ({"threshold": "2"}, "threshold"),
        ({"threshold": "nan"}, "threshold"),
        ({"threshold": "much"}, "threshold"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named(
    scripted_server: Server, wav: bytes, form: dict[str, str], param: str
) -> None:
    answer = ask(scripted_server, wav, **form)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_a_file_is_needed_and_must_be_audio(scripted_server: Server) -> None:
    url = f"{scripted_server.url}/v1/audio/watermark"
    missing = httpx.post(url, files={"threshold": (None, "0.5")})
    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "file")
    broken = ask(scripted_server, b"this is no sound at all")
    assert (broken.status_code, broken.json()["error"]["param"]) == (400, "file")


def test_models_tell_of_the_mark(serve: Serve) -> None:
    on = {"backend": "sori", "payload": PAYLOAD}
    for watermark, told in (({}, on), ({"enabled": False}, None)):
        server = serve(marking(**watermark))
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
            model = client.models.retrieve("sori")
        assert model.model_extra is not None
        assert model.model_extra["watermark"] == told
        assert ("watermark: OFF" in server.log()) == (told is None)


def test_replies_cut_short_are_marked_in_what_was_sent(serve: Serve) -> None:
    server = serve(marking() | {"stages": scripted(talker={"char_ms": 60})})
    body = {"model": "tts-1", "voice": "coral", "input": "word " * 40, "response_format": "pcm"}
    with httpx.stream("POST", f"{server.url}/v1/audio/speech", json=body, timeout=20) as reply:
        heard = b""
        for piece in reply.iter_bytes():
            heard += piece
            if len(heard) > 8 * 48_000:
                break
    samples = np.frombuffer(heard[: len(heard) // 2 * 2], "<i2")
    plain = serve(marking(enabled=False) | {"stages": scripted(talker={"char_ms": 60})})
    whole = httpx.post(f"{plain.url}/v1/audio/speech", json=body, timeout=20).content
    embedder = Embedder(KEY.encode(), PAYLOAD)
    wanted = embedder.process(np.frombuffer(whole, "<i2"))[: len(samples)]
    assert np.array_equal(samples, wanted)
