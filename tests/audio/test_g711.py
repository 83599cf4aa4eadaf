"""G.711: known bytes, and every value against libsndfile's tables."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from signals import SPEECH, signal_to_noise_db

from audio.codecs import get_decoder, get_encoder
from audio.containers import load_audio
from audio.formats import AudioFormat

LAWS = [("audio/pcmu", "ULAW"), ("audio/pcma", "ALAW")]
EVERY_SAMPLE = np.arange(-32768, 32768).astype(np.int16)
EVERY_BYTE = bytes(range(256))


def encode(name: str, samples: NDArray[np.int16]) -> bytes:
    return b"".join(get_encoder(AudioFormat(name)).encode(samples))


def decode(name: str, payload: bytes) -> NDArray[np.int16]:
    return get_decoder(AudioFormat(name)).decode(payload)


# Golden bytes worked out by hand from G.711: 14-bit µ-law values 0, 2, 4, 33, 8031 and 13-bit
# A-law values 1, 3, 33, 66, 4032 stand for these 16-bit samples.
@pytest.mark.parametrize(
    ("name", "samples", "wire"),
    [
        ("audio/pcmu", [0, 8, 16, 132, 32124], "ff fe fd ef 80"),
        ("audio/pcmu", [-8, -16, -132, -32124], "7e 7d 6f 00"),
        ("audio/pcma", [8, 24, 264, 528, 32256], "d5 d4 c5 f5 aa"),
        ("audio/pcma", [-8, -24, -264, -528, -32256], "55 54 45 75 2a"),
    ],
)
def test_known_values_have_their_bytes(name: str, samples: list[int], wire: str) -> None:
    payload = bytes.fromhex(wire)
    assert encode(name, np.array(samples, np.int16)) == payload
    np.testing.assert_array_equal(decode(name, payload), samples)


@pytest.mark.parametrize(("name", "subtype"), LAWS)
def test_every_sample_gets_the_byte_that_libsndfile_gives_it(name: str, subtype: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, EVERY_SAMPLE, 8_000, subtype, format="RAW")
    assert encode(name, EVERY_SAMPLE) == file.getvalue()


@pytest.mark.parametrize(("name", "subtype"), LAWS)
def test_every_byte_gets_the_sample_that_libsndfile_gives_it(name: str, subtype: str) -> None:
    expected, _ = soundfile.read(
        io.BytesIO(EVERY_BYTE),
        dtype="int16",
        samplerate=8_000,
        channels=1,
        format="RAW",
        subtype=subtype,
    )
    np.testing.assert_array_equal(decode(name, EVERY_BYTE), expected)


@pytest.mark.parametrize(("name", "subtype"), LAWS)
def test_decoding_and_encoding_again_keeps_every_value(name: str, subtype: str) -> None:
    values = decode(name, EVERY_BYTE)
    np.testing.assert_array_equal(decode(name, encode(name, values)), values)


@pytest.mark.parametrize(("name", "subtype"), LAWS)
def test_speech_survives_with_the_quality_of_a_telephone(name: str, subtype: str) -> None:
    speech = load_audio(SPEECH / "go_forward.wav", 8_000)
    assert signal_to_noise_db(speech, decode(name, encode(name, speech)), 8_000, 3_400) > 33


@pytest.mark.parametrize(("name", "subtype"), LAWS)
def test_an_empty_payload_is_no_samples(name: str, subtype: str) -> None:
    assert decode(name, b"").size == 0
