"""PCM16 on the wire."""

from __future__ import annotations

import numpy as np
import pytest

from audio.codecs import CodecError, get_decoder, get_encoder
from audio.formats import AudioFormat

SAMPLES = np.array([0, 1, -1, 32767, -32768, 258], np.int16)
WIRE = bytes.fromhex("0000 0100 ffff ff7f 0080 0201")


def test_samples_travel_little_endian() -> None:
    assert get_encoder(AudioFormat()).encode(SAMPLES) == [WIRE]
    np.testing.assert_array_equal(get_decoder(AudioFormat()).decode(WIRE), SAMPLES)


@pytest.mark.parametrize("nbytes", [1, 3, 4_801])
def test_half_a_sample_is_refused_with_the_number_of_bytes(nbytes: int) -> None:
    with pytest.raises(CodecError) as error:
        get_decoder(AudioFormat()).decode(bytes(nbytes))
    assert str(error.value) == (
        f"audio/pcm holds 16-bit samples, got an odd number of bytes ({nbytes})"
    )
    assert isinstance(error.value, ValueError)


def test_an_empty_payload_is_no_samples() -> None:
    assert get_decoder(AudioFormat()).decode(b"").size == 0


def test_every_second_sample_of_an_array_is_encoded_as_such() -> None:
    assert get_encoder(AudioFormat()).encode(SAMPLES[::2]) == [bytes.fromhex("0000 ffff 0080")]
