"""The recordings that benchmarks speak."""

import wave
from pathlib import Path

import numpy as np
import pytest

from bench.clips import CLIP_RATE_HZ, ClipsError, load_clips

HEADER = "file\tseconds\tspeech_start_ms\tspeech_end_ms\ttranscript\n"


def write_wav(path: Path, rate_hz: int = CLIP_RATE_HZ) -> None:
    """A tenth of a second of silence."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(bytes(rate_hz // 5))


def test_the_repository_brings_clips_whose_voice_ends_inside_them() -> None:
    clips = load_clips()
    assert len(clips) == 7
    for clip in clips:
        duration_ms = len(clip.samples) * 1000 / CLIP_RATE_HZ
        assert 0 < clip.speech_start_ms < clip.speech_end_ms <= duration_ms
        assert clip.samples.dtype == np.int16
        assert clip.transcript


def test_a_folder_without_a_table_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ClipsError, match=f"{tmp_path}.*does not exist.*--clips"):
        load_clips(tmp_path)


def test_a_table_without_rows_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "transcripts.tsv").write_text(HEADER)
    with pytest.raises(ClipsError, match="lists no clips"):
        load_clips(tmp_path)


def test_a_missing_column_and_a_bad_number_are_named(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav")
    (tmp_path / "transcripts.tsv").write_text("file\ttranscript\na.wav\thello\n")
    with pytest.raises(ClipsError, match="no column 'speech_start_ms'"):
        load_clips(tmp_path)
    (tmp_path / "transcripts.tsv").write_text(HEADER + "a.wav\t0.1\tzero\t90\thello\n")
    with pytest.raises(ClipsError, match=r"a\.wav: .*'zero'"):
        load_clips(tmp_path)


@pytest.mark.parametrize("defect", ["missing", "not a WAV", "another rate"])
def test_a_recording_that_cannot_be_used_is_named(tmp_path: Path, defect: str) -> None:
    (tmp_path / "transcripts.tsv").write_text(HEADER + "a.wav\t0.1\t0\t90\thello\n")
    if defect == "not a WAV":
        (tmp_path / "a.wav").write_bytes(b"ID3 and so on, long enough for a header of some kind")
    elif defect == "another rate":
        write_wav(tmp_path / "a.wav", 8000)
    with pytest.raises(ClipsError, match=r"a\.wav"):
        load_clips(tmp_path)
