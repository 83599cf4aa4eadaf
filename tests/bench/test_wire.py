"""The client's codecs, which share nothing with the server's."""

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.clips import CLIP_RATE_HZ
from bench.wire import WIRES


def tone(rate_hz: int, seconds: float = 1.0) -> NDArray[np.int16]:
    """440 Hz at a third of full scale."""
    at = np.arange(round(rate_hz * seconds))
    return np.round(np.sin(2 * np.pi * 440 * at / rate_hz) * 10_000).astype(np.int16)


def loudest_hz(samples: NDArray[np.int16], rate_hz: int) -> float:
    """Frequency of the strongest component."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate_hz / len(samples))


@pytest.mark.parametrize("name", sorted(WIRES))
def test_a_tone_survives_the_way_there_and_back(name: str) -> None:
    wire = WIRES[name]()
    sent = wire.from_clip(tone(CLIP_RATE_HZ))
    assert len(sent) == wire.send_rate_hz
    step = wire.send_rate_hz // 50
    payloads = [wire.encode(sent[first : first + step]) for first in range(0, len(sent), step)]
    received = np.concatenate([wire.decode(payload) for payload in payloads])
    assert len(received) == wire.receive_rate_hz
    steady = received[wire.receive_rate_hz // 5 :]
    assert loudest_hz(steady, wire.receive_rate_hz) == pytest.approx(440, abs=3)
    level = np.sqrt(np.mean(steady.astype(np.float64) ** 2))
    assert level == pytest.approx(10_000 / np.sqrt(2), rel=0.1)


def test_every_20_ms_of_opus_are_one_packet() -> None:
    wire = WIRES["opus"]()
    assert wire.append_ms == 20
    block = tone(wire.send_rate_hz, 0.02)
    for _ in range(5):
        assert 10 < len(wire.encode(block)) < 400


def test_g711_takes_one_byte_a_sample() -> None:
    wire = WIRES["pcmu"]()
    assert len(wire.encode(tone(8000, 0.02))) == 160


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pcm", {"type": "audio/pcm", "rate": 24000}),
        ("pcmu", {"type": "audio/pcmu"}),
        ("opus", {"type": "audio/opus"}),
    ],
)
def test_formats_are_named_as_the_protocol_names_them(
    name: str, expected: dict[str, object]
) -> None:
    assert WIRES[name]().session_format() == expected


def test_half_a_sample_of_pcm_is_an_error() -> None:
    with pytest.raises(ValueError, match="buffer size"):
        WIRES["pcm"]().decode(b"\x00\x00\x00")
