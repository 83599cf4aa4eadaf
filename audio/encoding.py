"""Audio files made while they are sent: samples in, bytes of one file out.

Whatever is taken from `encode` and `finish`, in order, is the file. Nothing is held back but what
the format needs, and nothing is written twice: a header cannot tell a length that is not known yet.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]

UNKNOWN_NBYTES = 0xFFFF_FFFF
"""What streaming writers put where the length of a WAV file belongs; readers read to the end."""


class FileEncoder(Protocol):
    """One file being made."""

    def encode(self, samples: Samples) -> bytes:
        """Bytes that more mono samples complete; often none."""

    def finish(self) -> bytes:
        """The rest of the file."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """media_type: for `Content-Type`."""

    name: str
    media_type: str


FILE_FORMATS: Mapping[str, FileFormat] = {
    kind.name: kind
    for kind in (
        FileFormat("wav", "audio/wav"),
        FileFormat("mp3", "audio/mpeg"),
        FileFormat("flac", "audio/flac"),
        FileFormat("opus", "audio/ogg"),
        FileFormat("aac", "audio/aac"),
        FileFormat("pcm", "audio/pcm"),
    )
}
"""opus is an Ogg file, aac an ADTS stream, pcm 16 bit little endian without a header."""


def file_encoder(name: str, rate_hz: int) -> FileEncoder:
    """An encoder of mono audio. Raises KeyError for an unknown format."""
    if name == "pcm":
        return _Pcm()
    if name == "wav":
        return _Wav(rate_hz)
    return _Av(name, rate_hz)


def encode_file(name: str, samples: Samples, rate_hz: int) -> bytes:
    """A whole file at once; here a WAV file tells its length."""
    if name == "wav":
        data = _Pcm().encode(samples)
        return wav_header(rate_hz, len(data)) + data
    encoder = file_encoder(name, rate_hz)
    return encoder.encode(samples) + encoder.finish()


def wav_header(rate_hz: int, data_nbytes: int | None) -> bytes:
    """44 bytes for mono PCM16. data_nbytes: None if it is not known."""
    data = UNKNOWN_NBYTES if data_nbytes is None else data_nbytes
    riff = UNKNOWN_NBYTES if data_nbytes is None else data_nbytes + 36
    layout = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate_hz, rate_hz * 2, 2, 16)
    return (
        struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + layout + struct.pack("<4sI", b"data", data)
    )


class _Pcm:
    def encode(self, samples: Samples) -> bytes:
        return samples.astype("<i2", copy=False).tobytes()

    def finish(self) -> bytes:
        return b""


class _Wav(_Pcm):
    def __init__(self, rate_hz: int) -> None:
        self._header = wav_header(rate_hz, None)

    def encode(self, samples: Samples) -> bytes:
        header, self._header = self._header, b""
        return header + super().encode(samples)

    def finish(self) -> bytes:
        header, self._header = self._header, b""
        return header


@dataclass(frozen=True, slots=True)
class _AvFormat:
    container: str
    codec: str
    rate_hz: int | None = None  # None: any
    bit_rate: int | None = None


_AV_FORMATS = {
    "mp3": _AvFormat("mp3", "libmp3lame", bit_rate=96_000),
    "flac": _AvFormat("flac", "flac"),
    "opus": _AvFormat("ogg", "libopus", rate_hz=48_000, bit_rate=64_000),
    "aac": _AvFormat("adts", "aac", bit_rate=96_000),
}


class _Sink:
    """What FFmpeg writes, until it is fetched. Without `seek` nothing is written over."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def fetch(self) -> bytes:
        fetched, self._written = bytes(self._written), bytearray()
        return fetched


class _Av:
    """A format of FFmpeg's."""

    def __init__(self, name: str, rate_hz: int) -> None:
        import av  # loads all of FFmpeg, so only when it is needed

        kind = _AV_FORMATS[name]
        self._sink = _Sink()
        # Nothing can be written over, so MP3 has no Xing header; then its first frame must not
        # borrow bits from one before it.
        options = {"write_xing": "0", "id3v2_version": "0"} if name == "mp3" else {}
        self._container: Any = av.open(self._sink, "w", format=kind.container, options=options)
        stream: Any = self._container.add_stream(kind.codec, rate=kind.rate_hz or rate_hz)
        stream.layout = "mono"
        if kind.bit_rate:
            stream.bit_rate = kind.bit_rate
        if name == "mp3":
            stream.options = {"reservoir": "0"}
        self._stream = stream
        self._frame = av.AudioFrame
        self._resampler = av.AudioResampler(
            format=stream.codec_context.format, layout="mono", rate=kind.rate_hz or rate_hz
        )
        self._rate_hz = rate_hz
        self._samples = 0

    def encode(self, samples: Samples) -> bytes:
        if len(samples):
            frame = self._frame.from_ndarray(
                np.ascontiguousarray(samples)[None, :], format="s16", layout="mono"
            )
            frame.sample_rate = self._rate_hz
            frame.pts = self._samples
            self._samples += len(samples)
            self._write(frame)
        return self._sink.fetch()

    def finish(self) -> bytes:
        if not self._samples:  # a file needs a frame to have a header
            self.encode(np.zeros(self._rate_hz // 50, np.int16))
        self._write(None)
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._sink.fetch()

    def _write(self, frame: Any) -> None:
        for resampled in self._resampler.resample(frame):
            self._container.mux(self._stream.encode(resampled))
