"""`audio/opus`: raw Opus packets (RFC 6716), one a payload, mono.

Packets made here are 20 ms long; packets of any legal length (2.5 to 120 ms) are understood.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audio.codecs.codec import CodecError, Decoder, Encoder
from audio.formats import AudioFormat
from audio.libopus import load_opuslib

PACKET_MS = 20
BITRATE = 32_000
"""Bits a second."""
COMPLEXITY = 5
"""Of 10. From 7 on libopus analyses the signal and codes speech by a model of the voice: 0.4 ms
instead of 0.1 ms a packet, and further from the waveform (16 instead of 18 dB below 1 kHz)."""


class OpusDecoder(Decoder):
    """Decodes a packet at a time. Raises OpusUnavailable when made without a libopus."""

    def __init__(self, audio_format: AudioFormat) -> None:
        super().__init__(audio_format)
        self._opuslib = load_opuslib()
        self._decoder = self._opuslib.Decoder(audio_format.rate_hz, 1)

    def decode(self, payload: bytes) -> NDArray[np.int16]:
        """The samples of one packet. A packet of several channels is mixed down."""
        if not payload:
            # libopus takes this for a lost packet and would invent sound.
            raise CodecError(f"{self.format.name} takes one packet a payload, got an empty one")
        if payload.startswith(b"OggS"):
            raise CodecError(
                f"{self.format.name} takes one raw packet a payload, got a page of an Ogg file"
            )
        try:
            # The length is read off the packet first: a state is touched only by sound packets.
            samples = self._opuslib.api.decoder.get_nb_samples(
                self._decoder.decoder_state, payload, len(payload)
            )
            pcm = self._decoder.decode(payload, samples)
        except self._opuslib.OpusError as error:
            raise CodecError(
                f"{self.format.name}: these {len(payload)} bytes are no Opus packet"
            ) from error
        return np.frombuffer(pcm, np.int16)

    def reset(self) -> None:
        """Forget the packets so far."""
        self._decoder.reset_state()


class OpusEncoder(Encoder):
    """Cuts samples into packets of 20 ms and holds back the rest until there is enough.

    The decoded sound lags by `lookahead_samples`; `flush` adds as much silence, so that no sample
    is lost. Raises OpusUnavailable when made without a libopus.
    """

    def __init__(self, audio_format: AudioFormat) -> None:
        super().__init__(audio_format)
        self._encoder = load_opuslib().Encoder(audio_format.rate_hz, 1, "audio")
        self._encoder.bitrate = BITRATE
        self._encoder.complexity = COMPLEXITY
        self.lookahead_samples: int = self._encoder.lookahead
        self._packet_samples = audio_format.to_samples(PACKET_MS)
        self._held = np.zeros(0, np.int16)
        self._started = False

    def encode(self, samples: NDArray[np.int16]) -> list[bytes]:
        """A packet for each 20 ms that is complete."""
        self._started = self._started or samples.size > 0
        held = np.concatenate([self._held, samples]) if self._held.size else samples
        size = self._packet_samples
        whole = held.size - held.size % size
        packets = [
            self._encoder.encode(held[start : start + size].tobytes(), size)
            for start in range(0, whole, size)
        ]
        self._held = held[whole:].copy()
        return packets

    def flush(self) -> list[bytes]:
        """The last packets, filled up with `padding_samples` of silence."""
        if not self._started:
            self.padding_samples = 0
            return []
        missing = -(self._held.size + self.lookahead_samples) % self._packet_samples
        self.padding_samples = self.lookahead_samples + missing
        packets = self.encode(np.zeros(self.padding_samples, np.int16))
        self.reset()
        return packets

    def reset(self) -> None:
        """Forget the samples so far."""
        self._encoder.reset_state()
        self._held = np.zeros(0, np.int16)
        self._started = False
