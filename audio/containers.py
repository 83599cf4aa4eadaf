"""Audio files of any kind, read and written in blocks, never whole.

libsndfile reads wav, flac, ogg, mp3 and more. FFmpeg, by PyAV, reads what it cannot: m4a, webm,
aac, amr. Files come from strangers, so FFmpeg may use only demuxers that open nothing else.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soundfile
from numpy.typing import NDArray

from audio.resample import StreamResampler

Source = str | os.PathLike[str] | bytes | BinaryIO
Target = str | os.PathLike[str] | BinaryIO
Float = NDArray[np.float32]

BLOCK_FRAMES = 16_384
"""Frames of the file read at a time."""

MAX_FRAMES = 1 << 40
"""A file that was made while it was sent tells no length; libsndfile stumbles at its end."""

RATES_HZ = range(2_000, 768_001)
"""What a file may say of its rate: at 1 Hz a block of it would be five hours long."""

DEMUXERS = "aac,ac3,adts,aiff,amr,amrnb,amrwb,asf,au,caf,flac,matroska,webm,mov,mp3,mp4,ogg,wav,w64"


class ContainerError(ValueError):
    """A file that is not audio, or that ends in the middle of nothing readable."""


def read_audio(source: Source, rate_hz: int) -> Iterator[NDArray[np.int16]]:
    """Blocks of the file's sound as mono at `rate_hz`; channels are averaged.

    source: a path, the bytes of a file, or a binary file that can seek, which is read from its
    start and stays open. A file without a sample gives no block. Raises ContainerError while
    iterating.
    """
    with _opened(source) as (file, name):
        if not file.seek(0, os.SEEK_END):
            raise ContainerError(f"{name}: the file is empty")
        file.seek(0)
        blocks: Iterator[tuple[int, Float]] = _read_soundfile(file)
        try:
            first = next(blocks, None)
        except (soundfile.SoundFileError, TypeError) as error:  # TypeError: named .raw, no header
            file.seek(0)
            blocks = _read_av(file, name, error)
            first = next(blocks, None)
        if first is None:
            return
        if first[0] not in RATES_HZ:
            raise ContainerError(f"{name}: {first[0]} Hz is no rate of an audio file")
        resampler = StreamResampler(first[0], rate_hz, np.float32)
        yield from _to_int16(resampler.process(first[1]))
        try:
            for _, block in blocks:
                yield from _to_int16(resampler.process(block))
        except soundfile.SoundFileError as error:
            raise ContainerError(f"{name}: broken audio file: {error}") from error
        yield from _to_int16(resampler.flush())


def load_audio(source: Source, rate_hz: int) -> NDArray[np.int16]:
    """All of a file's sound at once: see `read_audio`."""
    return np.concatenate([np.zeros(0, np.int16), *read_audio(source, rate_hz)])


def write_wav(target: Target, blocks: Iterable[NDArray[np.int16]], rate_hz: int) -> int:
    """Write mono PCM16 as it comes; the number of samples is returned.

    target: a path, or a binary file that can seek, which stays open. Raises ContainerError.
    """
    name = target if isinstance(target, str | os.PathLike) else "wav"
    samples = 0
    try:
        with soundfile.SoundFile(
            os.fspath(target) if isinstance(target, os.PathLike) else target,
            "w",
            samplerate=rate_hz,
            channels=1,
            format="WAV",
            subtype="PCM_16",
        ) as file:
            for block in blocks:
                file.write(block)
                samples += block.size
    except soundfile.SoundFileError as error:
        raise ContainerError(f"{name}: cannot be written: {error}") from error
    return samples


@contextmanager
def _opened(source: Source) -> Iterator[tuple[BinaryIO, str]]:
    """(the file, what to call it in a message)."""
    if isinstance(source, bytes):
        yield io.BytesIO(source), "audio"
    elif isinstance(source, str | os.PathLike):
        try:
            file = Path(source).open("rb")
        except OSError as error:
            raise ContainerError(f"{os.fspath(source)}: {error.strerror}") from error
        with file:
            yield file, os.fspath(source)
    else:
        yield source, Path(str(getattr(source, "name", "audio"))).name


def _read_soundfile(file: BinaryIO) -> Iterator[tuple[int, Float]]:
    """(rate, mono samples in -1..1) of each block."""
    with soundfile.SoundFile(file) as sound:
        if sound.frames > MAX_FRAMES:
            raise soundfile.SoundFileError("the file does not tell its length")
        while True:
            block: Float = sound.read(BLOCK_FRAMES, dtype="float32", always_2d=True)
            if not len(block):
                return
            # A float file may hold what is no number.
            yield sound.samplerate, _mono(np.nan_to_num(block.T, posinf=1.0, neginf=-1.0))


def _read_av(file: BinaryIO, name: str, reason: Exception) -> Iterator[tuple[int, Float]]:
    """As `_read_soundfile`, by FFmpeg. reason: why libsndfile could not."""
    import av  # loads all of FFmpeg, so only for files that need it

    try:
        with av.open(file, "r", options={"format_whitelist": DEMUXERS}) as container:
            if not container.streams.audio:
                raise ContainerError(f"{name}: no audio in this file")
            stream = container.streams.audio[0]
            converter = av.AudioResampler(format="fltp", rate=stream.rate)
            for frame in _undamaged(container.demux(stream)):
                for out in converter.resample(frame):
                    yield stream.rate, _mono(out.to_ndarray())
            for out in converter.resample(None):
                yield stream.rate, _mono(out.to_ndarray())
    except (av.FFmpegError, OSError) as error:
        raise ContainerError(
            f"{name}: not an audio file that can be read ({reason}; {error.strerror})"
        ) from error


def _undamaged(packets: Iterable[Any]) -> Iterator[Any]:
    """The frames of all packets but those that cannot be decoded, such as one that breaks off.

    Raises the first packet's error if there is no frame at all.
    """
    from av import InvalidDataError

    damage: InvalidDataError | None = None
    heard = False
    for packet in packets:
        try:
            frames = packet.decode()
        except InvalidDataError as error:
            damage = damage or error
            continue
        heard = heard or bool(frames)
        yield from frames
    if damage is not None and not heard:
        raise damage


def _mono(channels: NDArray[Any]) -> Float:
    """Average of (channels, samples)."""
    mono: Float = channels[0] if len(channels) == 1 else channels.mean(axis=0, dtype=np.float32)
    return mono


def _to_int16(samples: Float) -> Iterator[NDArray[np.int16]]:
    """The block, unless it is empty."""
    if samples.size:
        yield np.clip(np.rint(samples * 32768), -32768, 32767).astype(np.int16)
