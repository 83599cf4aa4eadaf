"""What `sori bench roundtrip` makes of a real server of scripted stages."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from servers import scripted

from audio.containers import load_audio
from bench.roundtrip import AnswerError, build_parser, hear, main, peak_mib, speak
from bench.sentences import LONG_TEXT, SENTENCES
from bench.server import start_server
from bench.understanding import word_error_rate


def test_sentences_are_varied_and_the_long_text_fits() -> None:
    assert len(set(SENTENCES)) == 100
    assert 3900 < len(LONG_TEXT) <= 4096


def test_speech_comes_back_as_a_file_and_is_heard() -> None:
    with start_server({"stages": scripted()}) as server:
        spoken = speak(server, "Hello there.", "coral", "mp3")
        assert 0.4 < len(load_audio(spoken.content, 16_000)) / 16_000 < 2
        assert 0 < spoken.first_byte_ms <= spoken.total_ms
        assert hear(server, spoken.content, "speech.mp3") == "Hello there."
        with pytest.raises(AnswerError, match="decoded"):
            hear(server, b"nothing", "speech.mp3")
        with pytest.raises(AnswerError, match="input"):
            speak(server, "Hello " * 1000, "coral", "mp3")


def test_memory_is_that_of_the_process_and_its_children() -> None:
    assert peak_mib(os.getpid()) > 20
    assert peak_mib(2**22 + 1) == 0


def test_the_report_is_what_the_words_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert word_error_rate(["Good morning, Mr. Smith."], ["good morning mister smith"]) == 0
    assert word_error_rate(["bread is made here"], ["bread is made"]) == 0.25
    assert word_error_rate(["for a hundred years"], ["For 100 years."]) == 0
    assert build_parser().parse_args([]).sentences == 5
    with pytest.raises(SystemExit):
        main(["--voices", "nobody"])
    assert "nobody" in capsys.readouterr().err


def test_a_whole_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "scripted.yaml"
    config.write_text(json.dumps({"stages": scripted()}))
    assert main(["--config", str(config), "--sentences", "1", "--voices", "marin"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    # Scripted stages hear the same words whatever is said.
    assert result["word_error_rate"]["marin"] > 0.5
    assert result["long"]["first_byte_ms"] < result["long"]["total_ms"]
