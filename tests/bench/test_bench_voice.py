"""`sori bench voice` against a double of the server."""

import json
import wave
from pathlib import Path
from typing import Any

import pytest
from realtime_double import Behaviour, realtime_double
from test_bench_client import short_clip

from bench.voice import main


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    """A folder with one short clip."""
    clip = short_clip()
    with wave.open(str(tmp_path / clip.name), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(clip.samples.tobytes())
    (tmp_path / "transcripts.tsv").write_text(
        "file\tseconds\tspeech_start_ms\tspeech_end_ms\ttranscript\n"
        f"{clip.name}\t0.4\t{clip.speech_start_ms}\t{clip.speech_end_ms}\t{clip.transcript}\n"
    )
    return tmp_path


def bench(
    capsys: pytest.CaptureFixture[str], clips: Path, behaviour: Behaviour, *options: str
) -> tuple[int, dict[str, Any], str]:
    """Run it; the exit code, the last line's object, and all that was printed."""
    with realtime_double(behaviour) as url:
        code = main(["--url", url, "--clips", str(clips), *options])
    printed = capsys.readouterr().out
    return code, json.loads(printed.splitlines()[-1]), printed


def test_every_turn_of_every_session_is_counted_and_measured(
    capsys: pytest.CaptureFixture[str], clips: Path
) -> None:
    code, result, printed = bench(
        capsys, clips, Behaviour(lead_in_ms=40), "--sessions", "2", "--turns", "2"
    )
    assert code == 0
    assert (result["bench"], result["turns"], result["failed"]) == ("voice", 4, 0)
    assert result["ms"]["voice_to_voice"]["n"] == 4
    assert 0 < result["ms"]["voice_to_voice"]["p50"] <= result["ms"]["voice_to_voice"]["p95"]
    assert result["ms"]["turn_end"]["p50"] <= result["ms"]["first_audio"]["p50"]
    assert result["ms"]["first_audio"]["p50"] <= result["ms"]["voice_to_voice"]["p50"]
    assert result["ms"]["lead_in"]["p50"] == 40
    assert result["ms"]["server.first_text"]["p50"] == 5
    assert result["underruns"] == 0
    assert result["machine"]["cores"] >= 1
    assert "voice_to_voice" in printed


def test_warm_up_turns_are_held_but_not_counted(
    capsys: pytest.CaptureFixture[str], clips: Path
) -> None:
    behaviour = Behaviour()
    _, result, _ = bench(capsys, clips, behaviour, "--turns", "1", "--warmup-turns", "1")
    assert result["turns"] == 1
    assert sum(len(block) for block in behaviour.heard) / 24_000 > 2 * 0.4


def test_a_gap_in_the_reply_is_an_underrun_of_its_length(
    capsys: pytest.CaptureFixture[str], clips: Path
) -> None:
    behaviour = Behaviour(pieces=2, gap_before_last_s=0.3)
    _, result, _ = bench(capsys, clips, behaviour, "--turns", "1")
    assert result["underruns"] == 1
    assert 100 < result["underrun_ms"] < 300


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (Behaviour(status="failed"), "failed: worker_died: The thinker died."),
        (Behaviour(mute=True), "an inaudible reply"),
        (Behaviour(close_on_speech=True), "the server closed the connection: 1011 server_error"),
    ],
)
def test_failed_replies_are_counted_with_their_reason_and_fail_the_run(
    capsys: pytest.CaptureFixture[str], clips: Path, behaviour: Behaviour, reason: str
) -> None:
    code, result, _ = bench(capsys, clips, behaviour, "--turns", "2")
    assert code == 1
    assert result["failures"] == {reason: 2}
    assert result["ms"]["voice_to_voice"] is None


def test_server_vad_asks_for_500_ms_of_silence(
    capsys: pytest.CaptureFixture[str], clips: Path
) -> None:
    behaviour = Behaviour()
    bench(capsys, clips, behaviour, "--turns", "1", "--server-vad")
    detection = behaviour.sessions[0]["audio"]["input"]["turn_detection"]
    assert detection == {"type": "server_vad", "silence_duration_ms": 500}


def test_no_clips_and_no_server_are_one_line_each(
    capsys: pytest.CaptureFixture[str], clips: Path, tmp_path: Path
) -> None:
    assert main(["--clips", str(tmp_path / "nowhere")]) == 1
    assert "no speech clips" in capsys.readouterr().err
    code = main(["--url", "ws://127.0.0.1:9/v1/realtime", "--clips", str(clips), "--turns", "1"])
    assert code == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert "Connect call failed" in next(iter(json.loads(last)["failures"]))
