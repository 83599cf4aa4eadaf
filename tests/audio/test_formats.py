"""Wire formats: what is allowed, and what the arithmetic gives."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audio.formats import FORMAT_NAMES, AudioFormat, FormatError, ms_to_samples, samples_to_ms


@pytest.mark.parametrize(
    ("name", "rate_hz"),
    [("audio/pcm", 24_000), ("audio/pcmu", 8_000), ("audio/pcma", 8_000), ("audio/opus", 24_000)],
)
def test_a_format_named_alone_has_its_default_rate(name: str, rate_hz: int) -> None:
    assert AudioFormat(name).rate_hz == rate_hz
    assert AudioFormat(name) == AudioFormat(name, rate_hz)


def test_the_default_format_is_pcm_at_24_khz() -> None:
    assert AudioFormat() == AudioFormat("audio/pcm", 24_000)
    assert set(FORMAT_NAMES) == {"audio/pcm", "audio/pcmu", "audio/pcma", "audio/opus"}


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 16_000, 44_100, 48_000])
def test_pcm_takes_other_rates(rate_hz: int) -> None:
    assert AudioFormat("audio/pcm", rate_hz).rate_hz == rate_hz


@pytest.mark.parametrize(
    ("name", "rate_hz", "message"),
    [
        ("audio/pcm", 7_999, "audio/pcm cannot have a rate of 7999 Hz: expected 8000 to 48000"),
        ("audio/pcm", 48_001, "audio/pcm cannot have a rate of 48001 Hz: expected 8000 to 48000"),
        ("audio/pcm", -1, "audio/pcm cannot have a rate of -1 Hz: expected 8000 to 48000"),
        ("audio/pcmu", 24_000, "audio/pcmu cannot have a rate of 24000 Hz: expected 8000"),
        ("audio/pcma", 16_000, "audio/pcma cannot have a rate of 16000 Hz: expected 8000"),
        (
            "audio/opus",
            44_100,
            "audio/opus cannot have a rate of 44100 Hz: expected 8000, 12000, 16000, 24000, 48000",
        ),
        (
            "pcm16",
            24_000,
            "unknown audio format 'pcm16': expected one of "
            "audio/pcm, audio/pcmu, audio/pcma, audio/opus",
        ),
    ],
)
def test_a_format_that_cannot_be_says_what_can(name: str, rate_hz: int, message: str) -> None:
    with pytest.raises(FormatError) as error:
        AudioFormat(name, rate_hz)
    assert str(error.value) == message


def test_a_format_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        AudioFormat().rate_hz = 8_000  # type: ignore[misc]  # that is the point


def test_times_are_whole_numbers_rounded_down() -> None:
    assert AudioFormat("audio/pcm", 11_025).to_samples(7) == 77
    assert AudioFormat("audio/pcm", 11_025).to_ms(77) == 6
    assert AudioFormat().to_ms(480) == 20
    assert AudioFormat().to_samples(20) == 480


@given(ms=st.integers(0, 10**12), rate_hz=st.sampled_from([8_000, 16_000, 24_000, 48_000]))
def test_whole_milliseconds_survive_the_way_there_and_back(ms: int, rate_hz: int) -> None:
    assert samples_to_ms(ms_to_samples(ms, rate_hz), rate_hz) == ms


def test_importing_the_audio_package_loads_no_codec_library_and_no_event_loop() -> None:
    code = (
        "import sys\n"
        "import audio.codecs, audio.endpointer, audio.formats, audio.levels, audio.libopus\n"
        "import audio.containers, audio.resample, audio.watermark\n"
        "heavy = {'opuslib', 'av', 'asyncio', 'onnxruntime', 'torch', 'scipy'} & set(sys.modules)\n"
        "print(*heavy)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout.strip()) == (0, ""), result.stderr
