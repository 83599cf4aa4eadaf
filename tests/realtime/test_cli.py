"""The command line: what it refuses, in one line, and what importing it costs."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import types
from pathlib import Path

import pytest

from realtime.certificate import make_self_signed
from realtime.cli import main

HEAVY = (
    "torch, onnxruntime, ctranslate2, faster_whisper, xllamacpp, hibari, numpy, fastapi, uvicorn"
)


def test_importing_the_command_imports_nothing_heavy() -> None:
    check = (
        "import sys, realtime.cli, realtime.__main__\n"
        f"heavy = set('{HEAVY}'.split(', ')) & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )

    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--reload"], "--reload is not supported"),
        (["--workers", "2"], "--workers 2 is not supported"),
        (["--host", "0.0.0.0"], "api_keys"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml: No such file"),
        (["--tls-cert", "c.pem"], "tls_key"),
    ],
)
def test_serve_refuses_what_it_cannot_do_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    code = main(["serve", *arguments])

    lines = capsys.readouterr().err.splitlines()
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith("sori: ")
    assert words in lines[0]


def test_a_port_in_use_is_named_before_anything_is_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        code = main(["serve", "--port", str(port)])

    assert code == 1
    assert f"127.0.0.1:{port} is in use" in capsys.readouterr().err


def test_a_host_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["serve", "--host", "nowhere.invalid", "--allow-anonymous"])

    assert code == 1
    assert "'nowhere.invalid'" in capsys.readouterr().err


def test_bench_hands_its_arguments_to_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    bench = types.ModuleType("bench.voice")
    bench.main = given.append  # type: ignore[attr-defined]  # a stand-in module
    monkeypatch.setitem(sys.modules, "bench.voice", bench)

    assert main(["bench", "voice", "--sessions", "4", "--help"]) == 0
    assert given == [["--sessions", "4", "--help"]]


def test_a_self_signed_certificate_names_the_host_and_fits_its_key(tmp_path: Path) -> None:
    certificate, key = make_self_signed(tmp_path / "tls", "sori.local")

    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    shown = subprocess.run(
        ["openssl", "x509", "-in", str(certificate), "-noout", "-text"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "DNS:sori.local" in shown
    assert "DNS:localhost" in shown
    assert key.stat().st_mode & 0o077 == 0


def test_a_recording_that_is_none_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    noise = tmp_path / "noise.wav"
    noise.write_bytes(b"not a recording")

    assert main(["transcribe", str(tmp_path / "absent.wav")]) == 1
    assert main(["transcribe", str(noise)]) == 1

    absent, unreadable = capsys.readouterr().err.splitlines()
    assert "absent.wav: no such file" in absent
    assert "noise.wav: not a recording" in unreadable


def test_say_refuses_an_empty_text_and_a_missing_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["say", " ", "-o", str(tmp_path / "a.wav")]) == 1
    assert main(["say", "Hello.", "-o", str(tmp_path / "none" / "a.wav")]) == 1

    empty, folder = capsys.readouterr().err.splitlines()
    assert "empty" in empty
    assert "none: no such folder" in folder


def test_a_mark_is_put_into_a_file_and_read_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speech = Path(__file__).parents[1] / "fixtures" / "speech" / "librivox_0880.wav"
    config = tmp_path / "sori.yaml"
    config.write_text("watermark: {key: of this test}", encoding="utf-8")
    keyed = ["--config", str(config)]
    marked = tmp_path / "marked.wav"
    embed = ["watermark", "embed", str(speech), str(marked), "--payload", "515", *keyed]
    assert main(embed) == 0
    assert main(["watermark", "detect", str(marked), *keyed]) == 0
    assert "payload 515" in capsys.readouterr().out
    assert main(["watermark", "detect", str(speech), *keyed]) != 0
    assert "no mark" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["detect", "/nowhere.wav"], "/nowhere.wav"),
        (["detect", "x.wav", "--threshold", "2"], "--threshold"),
        (["embed", __file__, "x.wav", "--payload", "70000"], "16 bits"),
        (["embed", __file__, __file__], "recording itself"),
    ],
)
def test_what_cannot_be_marked_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    config = tmp_path / "sori.yaml"
    config.write_text("watermark: {key: of this test}", encoding="utf-8")
    assert main(["watermark", *arguments, "--config", str(config)]) != 0
    told = capsys.readouterr().err
    assert words in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tiny"], "sori models tiny qwen3-omni|qwen2.5-omni FOLDER"),
        (["tiny", "gpt-9", "folder"], "sori models tiny qwen3-omni|qwen2.5-omni FOLDER"),
        (["list", "something"], "takes no names"),
        (["fetch", "not a name"], "not a name: cannot be fetched"),
    ],
)
def test_models_that_cannot_be_had_are_said_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["models", *arguments]) != 0
    told = capsys.readouterr().err
    assert words in told
    assert "Traceback" not in told


def test_a_tiny_checkpoint_is_made_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "tiny", "qwen3-omni", str(tmp_path / "tiny")]) == 0
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in (tmp_path / "tiny").iterdir()
    }
    assert "random" in capsys.readouterr().out
