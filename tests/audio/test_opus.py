"""Opus: packets of 20 ms, nothing lost, foreign packets understood, junk refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from numpy.typing import NDArray
from signals import SPEECH, noise, signal_to_noise_db

from audio.codecs import CodecError, get_decoder
from audio.codecs.opus import OpusEncoder
from audio.containers import load_audio
from audio.formats import OPUS_RATES_HZ, AudioFormat
from audio.libopus import load_opuslib

OPUS = AudioFormat("audio/opus")


def decode(packets: list[bytes], audio_format: AudioFormat = OPUS) -> NDArray[np.int16]:
    decoder = get_decoder(audio_format)
    return np.concatenate([decoder.decode(packet) for packet in packets])


@pytest.mark.parametrize("rate_hz", OPUS_RATES_HZ)
def test_speech_comes_back_as_it_went_in(rate_hz: int) -> None:
    speech = load_audio(SPEECH / "librivox_0880.wav", rate_hz)
    encoder = OpusEncoder(AudioFormat("audio/opus", rate_hz))
    packets = encoder.encode(speech) + encoder.flush()
    decoded = decode(packets, AudioFormat("audio/opus", rate_hz))
    aligned = decoded[encoder.lookahead_samples :][: speech.size]
    assert aligned.size == speech.size, "the lookahead swallowed the end"
    assert signal_to_noise_db(speech, aligned, rate_hz, 1_000) > 12
    assert np.corrcoef(speech, aligned)[0, 1] > 0.95


def test_a_packet_comes_out_for_each_20_ms_and_not_before() -> None:
    encoder = OpusEncoder(OPUS)
    assert encoder.encode(noise(479)) == []
    assert len(encoder.encode(noise(1))) == 1
    assert len(encoder.encode(noise(3 * 480 + 1))) == 3
    packets = encoder.encode(noise(480))
    assert [decode([packet]).size for packet in packets] == [480]


def test_the_flush_says_how_much_silence_it_added() -> None:
    encoder = OpusEncoder(OPUS)
    assert len(encoder.encode(noise(490))) == 1
    assert len(encoder.flush()) == 1  # 10 samples, the lookahead, and silence
    assert encoder.padding_samples == 470
    assert encoder.flush() == []
    assert encoder.padding_samples == 0


def test_whole_packets_are_followed_by_one_that_brings_their_end() -> None:
    encoder = OpusEncoder(OPUS)
    assert len(encoder.encode(noise(4_800))) == 10
    assert len(encoder.flush()) == 1  # the lookahead is still inside the encoder
    assert encoder.padding_samples == 480


def test_speech_takes_about_32_kilobits_a_second() -> None:
    speech = load_audio(SPEECH / "librivox_0870.wav", 24_000)
    packets = OpusEncoder(OPUS).encode(speech)
    bits_per_second = sum(map(len, packets)) * 8 / (len(packets) * 0.02)
    assert 24_000 < bits_per_second < 40_000


@pytest.mark.parametrize("frame_ms", [2.5, 5, 10, 20, 40, 60])
def test_packets_of_other_lengths_are_understood(frame_ms: float) -> None:
    size = int(24 * frame_ms)
    packet = load_opuslib().Encoder(24_000, 1, "audio").encode(noise(size).tobytes(), size)
    assert decode([packet]).size == size


def test_a_packet_of_120_ms_is_understood() -> None:
    # RFC 6716, code 3 with constant size: six frames of 20 ms, each as long as the first.
    encoder = load_opuslib().Encoder(24_000, 1, "audio")
    encoder.vbr = 0
    frames = [encoder.encode(noise(480, seed).tobytes(), 480) for seed in range(6)]
    assert len({frame[0] for frame in frames}) == 1
    packet = bytes([frames[0][0] | 3, 6]) + b"".join(frame[1:] for frame in frames)
    assert decode([packet]).size == 2_880


def test_a_packet_from_a_stereo_encoder_is_mixed_down() -> None:
    one = noise(960)
    stereo = np.repeat(one, 2)
    packet = load_opuslib().Encoder(48_000, 2, "audio").encode(stereo.tobytes(), 960)
    assert decode([packet]).size == 480


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "audio/opus takes one packet a payload, got an empty one"),
        (
            b"OggS" + bytes(40),
            "audio/opus takes one raw packet a payload, got a page of an Ogg file",
        ),
        # Code 3, no frame count; a frame count of 0; 63 frames of 20 ms; code 1 of odd size.
        (b"\xdb", "audio/opus: these 1 bytes are no Opus packet"),
        (b"\xdb\x00\x01", "audio/opus: these 3 bytes are no Opus packet"),
        (b"\xdb\x3f" + bytes(63), "audio/opus: these 65 bytes are no Opus packet"),
        (b"\xd9\x01\x02\x03", "audio/opus: these 4 bytes are no Opus packet"),
    ],
)
def test_what_is_no_packet_is_refused_and_leaves_no_trace(payload: bytes, message: str) -> None:
    packets = OpusEncoder(OPUS).encode(noise(4_800))
    disturbed = get_decoder(OPUS)
    out = [disturbed.decode(packet) for packet in packets[:5]]
    with pytest.raises(CodecError) as error:
        disturbed.decode(payload)
    assert str(error.value) == message
    out += [disturbed.decode(packet) for packet in packets[5:]]
    np.testing.assert_array_equal(np.concatenate(out), decode(packets))


def test_pcm_sent_as_opus_is_refused_or_short_but_never_a_crash() -> None:
    decoder = get_decoder(OPUS)
    for sample in range(-32768, 32768, 257):
        try:
            assert decoder.decode(struct.pack("<h", sample) * 480).size <= 2_880
        except CodecError:
            continue
