"""The table of codecs, and what holds for all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signals import cuts, noise, pieces

from audio.codecs import CODECS, CodecError, get_decoder, get_encoder
from audio.formats import FORMAT_NAMES, AudioFormat

formats = st.sampled_from(FORMAT_NAMES).map(AudioFormat)


def test_every_format_has_a_codec() -> None:
    assert set(CODECS) == set(FORMAT_NAMES)


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_a_codec_knows_its_format(name: str) -> None:
    audio_format = AudioFormat(name)
    assert get_decoder(audio_format).format is audio_format
    assert get_encoder(audio_format).format is audio_format


@given(audio_format=formats, lengths=cuts)
@settings(max_examples=40, deadline=None)
def test_encoding_any_chunking_equals_encoding_at_once(
    audio_format: AudioFormat, lengths: list[int]
) -> None:
    signal = noise(5_000)
    whole, streamed = get_encoder(audio_format), get_encoder(audio_format)
    payloads = [p for piece in pieces(signal, lengths) for p in streamed.encode(piece)]
    at_once = [*whole.encode(signal), *whole.flush()]
    assert b"".join([*payloads, *streamed.flush()]) == b"".join(at_once)


@given(audio_format=formats, lengths=cuts)
@settings(max_examples=20, deadline=None)
def test_what_went_in_comes_out_with_the_padding_that_was_reported(
    audio_format: AudioFormat, lengths: list[int]
) -> None:
    encoder, decoder = get_encoder(audio_format), get_decoder(audio_format)
    payloads = [p for piece in pieces(noise(3_001), lengths) for p in encoder.encode(piece)]
    decoded = [decoder.decode(payload) for payload in [*payloads, *encoder.flush()]]
    assert all(block.dtype == np.int16 for block in decoded)
    assert sum(block.size for block in decoded) == 3_001 + encoder.padding_samples


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_nothing_in_gives_nothing_out(name: str) -> None:
    encoder = get_encoder(AudioFormat(name))
    assert encoder.encode(np.zeros(0, np.int16)) == []
    assert encoder.flush() == []
    assert encoder.padding_samples == 0


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_a_reset_encoder_starts_afresh(name: str) -> None:
    audio_format = AudioFormat(name)
    used, new = get_encoder(audio_format), get_encoder(audio_format)
    used.encode(noise(777, seed=1))
    used.reset()
    signal = noise(5_000)
    assert [*used.encode(signal), *used.flush()] == [*new.encode(signal), *new.flush()]


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_a_reset_decoder_starts_afresh(name: str) -> None:
    audio_format = AudioFormat(name)
    used, new, encoder = (
        get_decoder(audio_format),
        get_decoder(audio_format),
        get_encoder(audio_format),
    )
    for payload in encoder.encode(noise(4_000, seed=1)):
        used.decode(payload)
    used.reset()
    encoder.reset()
    for payload in encoder.encode(noise(4_000)):
        np.testing.assert_array_equal(used.decode(payload), new.decode(payload))


@given(audio_format=formats, junk=st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_decoded_or_refused_without_a_trace(
    audio_format: AudioFormat, junk: bytes
) -> None:
    good = get_encoder(audio_format).encode(noise(2_000))
    disturbed, undisturbed = get_decoder(audio_format), get_decoder(audio_format)
    for decoder in (disturbed, undisturbed):
        decoder.decode(good[0])
    try:
        disturbed.decode(junk)
    except CodecError:
        for payload in good[1:]:
            np.testing.assert_array_equal(disturbed.decode(payload), undisturbed.decode(payload))
