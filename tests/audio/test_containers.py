"""Audio files: read whatever they are, at the wanted rate, in blocks; written as they come."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from signals import SPEECH, noise, tone

from audio.containers import ContainerError, load_audio, read_audio, write_wav

SECOND = tone(440, 24_000, 24_000)


def by_soundfile(kind: str, subtype: str | None = None) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, SECOND.astype(np.float32) / 32768, 24_000, subtype, format=kind)
    return file.getvalue()


def by_ffmpeg(container: str, codec: str, rate_hz: int = 48_000) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=container) as out:
        stream = out.add_stream(codec, rate=rate_hz)
        assert isinstance(stream, av.AudioStream)
        stream.layout = "mono"
        sound = tone(440, rate_hz, rate_hz)
        fifo = av.AudioFifo()
        frame = av.AudioFrame.from_ndarray(sound[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = rate_hz
        fifo.write(frame)
        while (piece := fifo.read(stream.frame_size or 1_024, partial=True)) is not None:
            out.mux(stream.encode(piece))
        out.mux(stream.encode(None))
    return file.getvalue()


def assert_is_the_tone(samples: NDArray[np.int16], rate_hz: int) -> None:
    """A second of 440 Hz at half scale, give or take a codec's edges."""
    assert samples.dtype == np.int16
    assert abs(samples.size / rate_hz - 1) < 0.06
    middle = samples[rate_hz // 4 : rate_hz // 4 + rate_hz // 2].astype(float)
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(middle.size)))
    assert abs(spectrum.argmax() * 2 - 440) <= 2
    assert np.sqrt(2) * middle.std() == pytest.approx(16_384, rel=0.08)  # LAME takes 5 % off


@pytest.mark.parametrize("rate_hz", [16_000, 24_000])
@pytest.mark.parametrize(
    ("kind", "subtype"),
    [
        ("WAV", "PCM_16"),
        ("WAV", "PCM_24"),
        ("WAV", "FLOAT"),
        ("WAV", "ULAW"),
        ("FLAC", None),
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
        ("MP3", None),
        ("AIFF", None),
    ],
)
def test_files_that_libsndfile_knows_are_read(kind: str, subtype: str | None, rate_hz: int) -> None:
    assert_is_the_tone(load_audio(by_soundfile(kind, subtype), rate_hz), rate_hz)


@pytest.mark.parametrize("rate_hz", [16_000, 48_000])
@pytest.mark.parametrize(
    ("container", "codec"),
    [("mp4", "aac"), ("adts", "aac"), ("webm", "libopus"), ("matroska", "pcm_s16le")],
)
def test_files_that_only_ffmpeg_knows_are_read(container: str, codec: str, rate_hz: int) -> None:
    content = by_ffmpeg(container, codec)
    with pytest.raises(soundfile.SoundFileError):
        soundfile.SoundFile(io.BytesIO(content))
    assert_is_the_tone(load_audio(content, rate_hz), rate_hz)


def test_pcm16_at_its_own_rate_is_read_bit_by_bit(tmp_path: Path) -> None:
    signal = noise(40_000, level=0.5)
    path = tmp_path / "noise.wav"
    assert write_wav(path, [signal[:100], signal[100:]], 16_000) == 40_000
    np.testing.assert_array_equal(load_audio(path, 16_000), signal)
    np.testing.assert_array_equal(load_audio(str(path), 16_000), signal)
    np.testing.assert_array_equal(load_audio(path.read_bytes(), 16_000), signal)


def test_channels_are_averaged() -> None:
    file = io.BytesIO()
    left, right = noise(1_000), noise(1_000, seed=1)
    soundfile.write(file, np.stack([left, right], axis=1), 16_000, format="WAV")
    mean = np.rint((left.astype(float) + right) / 2)
    np.testing.assert_array_equal(load_audio(file.getvalue(), 16_000), mean)


def test_an_open_file_is_read_from_any_place_it_can_seek_in_and_stays_open() -> None:
    file = io.BytesIO(by_ffmpeg("mp4", "aac"))
    assert_is_the_tone(load_audio(file, 16_000), 16_000)
    assert not file.closed


def test_a_file_is_read_in_blocks_and_only_as_far_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "minute.wav"
    minute = 60 * 16_000
    write_wav(path, [noise(16_000, seed) for seed in range(60)], 16_000)
    with path.open("rb") as file:
        blocks = read_audio(file, 16_000)
        assert next(blocks).size < minute / 20
        assert file.tell() < path.stat().st_size / 10
        assert sum(block.size for block in blocks) + 16_384 == minute


def test_a_reader_that_stops_early_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "noise.wav"
    write_wav(path, [noise(100_000)], 16_000)
    blocks = read_audio(path, 16_000)
    next(blocks)
    del blocks  # an open file would be a ResourceWarning, which is an error here


def test_wav_is_written_while_the_sound_is_made(tmp_path: Path) -> None:
    path = tmp_path / "made.wav"
    sizes = []

    def make() -> Iterator[NDArray[np.int16]]:
        for _ in range(5):
            yield noise(50_000)
            sizes.append(path.stat().st_size)

    write_wav(path, make(), 24_000)
    assert sizes[-1] > sizes[0] >= 50_000
    assert soundfile.info(path).frames == 250_000
    assert (soundfile.info(path).samplerate, soundfile.info(path).subtype) == (24_000, "PCM_16")


def test_wav_can_be_written_to_an_open_file() -> None:
    file = io.BytesIO()
    write_wav(file, [noise(10)], 24_000)
    np.testing.assert_array_equal(load_audio(file.getvalue(), 24_000), noise(10))


def test_a_file_without_a_sample_gives_no_block() -> None:
    file = io.BytesIO()
    write_wav(file, [], 24_000)
    assert list(read_audio(file.getvalue(), 16_000)) == []
    assert load_audio(file.getvalue(), 16_000).size == 0


@pytest.mark.parametrize("content", [b"no sound at all", bytes(5_000)])
@pytest.mark.parametrize("name", ["talk.mp3", "talk.raw"])
def test_a_file_that_is_no_audio_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ContainerError, match=f"{name}: not an audio file that can be read"):
        load_audio(path, 16_000)


@pytest.mark.parametrize("name", ["talk.mp3", "talk.raw"])
def test_an_empty_file_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.touch()
    with pytest.raises(ContainerError, match=f"{name}: the file is empty"):
        load_audio(path, 16_000)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match=r"gone\.wav: No such file or directory"):
        load_audio(tmp_path / "gone.wav", 16_000)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match=r"folder/out\.wav: cannot be written"):
        write_wav(tmp_path / "no folder" / "out.wav", [noise(10)], 24_000)


def test_a_video_without_sound_is_refused() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as out:
        stream = out.add_stream("mpeg4", rate=25)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        out.mux(stream.encode(av.VideoFrame(64, 64, "yuv420p")))
        out.mux(stream.encode(None))
    with pytest.raises(ContainerError, match="audio: no audio in this file"):
        load_audio(file.getvalue(), 16_000)


def test_a_playlist_cannot_make_the_server_read_another_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # FFmpeg's concat demuxer knows itself by content and may open files below the working folder.
    monkeypatch.chdir(SPEECH)
    with pytest.raises(ContainerError, match="not an audio file that can be read"):
        load_audio(b"ffconcat version 1.0\nfile go_forward.wav\n", 16_000)


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_a_file_cut_off_in_the_middle_gives_what_is_there_or_an_error(kind: str) -> None:
    content = by_soundfile(kind)
    try:
        samples = load_audio(content[: len(content) // 2], 16_000)
    except ContainerError as error:
        assert str(error).startswith("audio: ")
    else:
        assert 2_000 < samples.size < 16_000


def test_a_broken_middle_is_an_error_or_skipped_but_not_a_crash() -> None:
    content = bytearray(by_ffmpeg("mp4", "aac"))
    content[3_000:4_000] = bytes(1_000)
    try:
        assert load_audio(bytes(content), 16_000).size > 0
    except ContainerError as error:
        assert str(error).startswith("audio: ")


def test_samples_that_are_no_numbers_are_silent_or_loud() -> None:
    samples = np.zeros(16_000, np.float32)
    samples[4_000:4_003] = [np.nan, np.inf, -np.inf]
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, "FLOAT", format="WAV")
    read = load_audio(file.getvalue(), 16_000)
    assert read[4_000:4_003].tolist() == [0, 32_767, -32_768]
    assert not read[:4_000].any()
    assert not read[4_003:].any()


@pytest.mark.parametrize("rate_hz", [1, 10_000_000])
def test_a_rate_that_no_recording_has_is_refused(rate_hz: int) -> None:
    file = io.BytesIO()
    soundfile.write(file, SECOND, rate_hz, format="WAV")
    with pytest.raises(ContainerError, match="rate"):
        load_audio(file.getvalue(), 16_000)


def test_what_cannot_be_decoded_is_left_out_by_ffmpeg_too() -> None:
    content = by_ffmpeg("adts", "aac")
    half = load_audio(content[: len(content) // 2 + 7], 16_000)
    assert 0.3 < half.size / 16_000 < 0.7
