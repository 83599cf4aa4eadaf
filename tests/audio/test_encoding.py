"""Files made while they are sent, read by decoders that did not make them."""

from __future__ import annotations

import io
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from speech_scoring import recordings

from audio.containers import load_audio
from audio.encoding import FILE_FORMATS, encode_file, file_encoder
from audio.resample import StreamResampler

RATE_HZ = 24_000


def speech() -> NDArray[np.int16]:
    resampler = StreamResampler(16_000, RATE_HZ)
    samples = next(r.samples for r in recordings() if r.name == "cards_005.wav")
    return np.concatenate([resampler.process(samples), resampler.flush()])


def streamed(name: str, samples: NDArray[np.int16], step: int) -> bytes:
    encoder = file_encoder(name, RATE_HZ)
    pieces = [encoder.encode(samples[at : at + step]) for at in range(0, len(samples), step)]
    return b"".join([*pieces, encoder.finish()])


def by_ffmpeg(data: bytes) -> NDArray[np.float64]:
    container: Any
    with av.open(io.BytesIO(data)) as container:
        resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE_HZ)
        frames = [
            out.to_ndarray()[0]
            for frame in [*container.decode(audio=0), None]
            for out in resampler.resample(frame)
        ]
    return np.concatenate(frames).astype(np.float64)


def likeness(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Highest correlation over small shifts: codecs put a little silence in front."""
    size = min(len(a), len(b)) - 4000
    return max(
        float(np.corrcoef(a[2000 : 2000 + size], b[2000 + shift : 2000 + shift + size])[0, 1])
        for shift in range(-1500, 2000)
        if 2000 + shift + size <= len(b)
    )


@pytest.mark.parametrize("name", sorted(set(FILE_FORMATS) - {"pcm"}))
def test_what_is_streamed_is_one_file_with_all_the_sound(name: str) -> None:
    samples = speech()
    decoded = by_ffmpeg(streamed(name, samples, 999))
    assert abs(len(decoded) - len(samples)) < RATE_HZ // 10
    assert likeness(samples.astype(np.float64), decoded) > 0.97


@pytest.mark.parametrize("name", sorted(set(FILE_FORMATS) - {"pcm"}))
def test_the_server_reads_its_own_files(name: str) -> None:
    samples = speech()
    assert len(load_audio(streamed(name, samples, 4800), RATE_HZ)) == pytest.approx(
        len(samples), abs=RATE_HZ // 10
    )


@pytest.mark.parametrize("name", ["wav", "mp3", "opus"])
def test_libsndfile_reads_them_too(name: str) -> None:
    samples = speech()
    read, rate_hz = soundfile.read(io.BytesIO(streamed(name, samples, 4800)))
    assert len(read) / rate_hz == pytest.approx(len(samples) / RATE_HZ, abs=0.1)


def test_the_cut_into_pieces_leaves_no_trace() -> None:
    samples = speech()
    for name in FILE_FORMATS:
        if name not in ("opus", "flac"):  # these carry a random serial number, or none of it
            assert streamed(name, samples, 777) == streamed(name, samples, 5000)


def test_a_whole_wav_file_tells_its_length() -> None:
    samples = speech()
    data = encode_file("wav", samples, RATE_HZ)
    assert int.from_bytes(data[4:8], "little") == len(data) - 8
    assert int.from_bytes(data[40:44], "little") == 2 * len(samples)
    np.testing.assert_array_equal(load_audio(data, RATE_HZ), samples)


def test_pcm_has_no_header() -> None:
    samples = speech()
    assert streamed("pcm", samples, 500) == samples.tobytes()


@pytest.mark.parametrize("name", sorted(set(FILE_FORMATS) - {"pcm"}))
def test_no_sound_at_all_is_a_file_still(name: str) -> None:
    data = file_encoder(name, RATE_HZ).finish()
    assert data
    assert len(load_audio(data, RATE_HZ)) < RATE_HZ // 5


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(KeyError):
        file_encoder("midi", RATE_HZ)
