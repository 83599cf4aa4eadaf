"""The codecs of the wire, one file each, and the table that names them."""

from __future__ import annotations

from dataclasses import dataclass

from audio.codecs.codec import CodecError, Decoder, Encoder
from audio.codecs.g711 import G711Decoder, G711Encoder
from audio.codecs.opus import OpusDecoder, OpusEncoder
from audio.codecs.pcm16 import Pcm16Decoder, Pcm16Encoder
from audio.formats import OPUS, PCM, PCMA, PCMU, AudioFormat

__all__ = ["CODECS", "Codec", "CodecError", "Decoder", "Encoder", "get_decoder", "get_encoder"]


@dataclass(frozen=True, slots=True)
class Codec:
    """The two halves of a codec."""

    decoder: type[Decoder]
    encoder: type[Encoder]


CODECS: dict[str, Codec] = {
    PCM: Codec(Pcm16Decoder, Pcm16Encoder),
    PCMU: Codec(G711Decoder, G711Encoder),
    PCMA: Codec(G711Decoder, G711Encoder),
    OPUS: Codec(OpusDecoder, OpusEncoder),
}


def get_decoder(audio_format: AudioFormat) -> Decoder:
    """A decoder for one stream. Raises audio.libopus.OpusUnavailable."""
    return CODECS[audio_format.name].decoder(audio_format)


def get_encoder(audio_format: AudioFormat) -> Encoder:
    """An encoder for one stream. Raises audio.libopus.OpusUnavailable."""
    return CODECS[audio_format.name].encoder(audio_format)
