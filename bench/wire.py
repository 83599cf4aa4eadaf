"""The client's side of the audio formats.

It shares no code with the server, so that an error made twice the same way cannot hide: Opus and
G.711 come from FFmpeg here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
import numpy as np
import soxr
from av.audio.codeccontext import AudioCodecContext
from numpy.typing import NDArray

from bench.clips import CLIP_RATE_HZ

OPUS_PACKET_MS = 20


class Wire(ABC):
    """One format of a session, both ways. Stateful: each connection has its own."""

    name: str
    send_rate_hz: int
    receive_rate_hz: int
    append_ms: int | None = None
    """Length every append must have, if the format leaves no choice."""

    @abstractmethod
    def session_format(self) -> dict[str, Any]:
        """What `session.audio.*.format` must be."""

    @abstractmethod
    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """One append's bytes, from samples at send_rate_hz."""

    @abstractmethod
    def decode(self, payload: bytes) -> NDArray[np.int16]:
        """One delta's samples, at receive_rate_hz."""

    def from_clip(self, samples: NDArray[np.int16]) -> NDArray[np.int16]:
        """A whole 16 kHz recording at send_rate_hz."""
        resampled = soxr.resample(samples, CLIP_RATE_HZ, self.send_rate_hz)
        return np.asarray(resampled, np.int16)


class PcmWire(Wire):
    """24 kHz mono int16, little endian."""

    name = "pcm"
    send_rate_hz = receive_rate_hz = 24_000

    def session_format(self) -> dict[str, Any]:
        """The protocol's default."""
        return {"type": "audio/pcm", "rate": self.send_rate_hz}

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """As it is."""
        return samples.astype("<i2").tobytes()

    def decode(self, payload: bytes) -> NDArray[np.int16]:
        """As it is; half a sample is an error of the server's."""
        return np.frombuffer(payload, np.dtype("<i2"))


class _FfmpegWire(Wire):
    """A codec of FFmpeg's that takes and gives int16."""

    codec: str

    def __init__(self) -> None:
        self._encoder = self._context("w", self.send_rate_hz)
        self._decoder = self._context("r", self.receive_rate_hz)
        self._sent = 0

    def _context(self, mode: Any, rate_hz: int) -> AudioCodecContext:
        context = av.CodecContext.create(self.codec, mode)
        assert isinstance(context, AudioCodecContext)
        context.sample_rate = rate_hz
        context.layout = "mono"
        if mode == "w":
            context.format = "s16"
        return context

    def encode(self, samples: NDArray[np.int16]) -> bytes:
        """Bytes of all packets that these samples complete."""
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = self.send_rate_hz
        frame.time_base = Fraction(1, self.send_rate_hz)
        frame.pts = self._sent
        self._sent += len(samples)
        return b"".join(bytes(packet) for packet in self._encoder.encode(frame))

    def decode(self, payload: bytes) -> NDArray[np.int16]:
        """Samples of one packet."""
        return np.concatenate(list(self._decoded(payload)))

    def _decoded(self, payload: bytes) -> Iterator[NDArray[np.int16]]:
        for frame in self._decoder.decode(av.Packet(payload)):
            yield np.asarray(frame.to_ndarray()[0], np.int16)


class MuLawWire(_FfmpegWire):
    """G.711 µ-law, 8 kHz."""

    name = "pcmu"
    codec = "pcm_mulaw"
    send_rate_hz = receive_rate_hz = 8_000

    def session_format(self) -> dict[str, Any]:
        """No rate: there is only one."""
        return {"type": "audio/pcmu"}


class OpusWire(_FfmpegWire):
    """One raw Opus packet of 20 ms an append and a delta. FFmpeg decodes Opus at 48 kHz only."""

    name = "opus"
    codec = "libopus"
    send_rate_hz = 24_000
    receive_rate_hz = 48_000
    append_ms = OPUS_PACKET_MS

    def session_format(self) -> dict[str, Any]:
        """An extension of the protocol."""
        return {"type": "audio/opus"}


WIRES: dict[str, type[Wire]] = {wire.name: wire for wire in (PcmWire, MuLawWire, OpusWire)}
