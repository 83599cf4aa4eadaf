"""What the bytes of a stream mean: the wire formats, and arithmetic between samples and time.

All times inside Sori are counts of samples; milliseconds exist only at the edges.
"""

from __future__ import annotations

from dataclasses import dataclass

PCM = "audio/pcm"
PCMU = "audio/pcmu"
PCMA = "audio/pcma"
OPUS = "audio/opus"

OPUS_RATES_HZ = (8_000, 12_000, 16_000, 24_000, 48_000)
"""Rates libopus converts to and from by itself; on the wire every Opus stream is 48 kHz."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a wire name allows. allowed: rates_hz, for people."""

    default_hz: int
    rates_hz: tuple[int, ...] | range
    allowed: str


_KINDS = {
    PCM: _Kind(24_000, range(8_000, 48_001), "8000 to 48000"),
    PCMU: _Kind(8_000, (8_000,), "8000"),
    PCMA: _Kind(8_000, (8_000,), "8000"),
    OPUS: _Kind(24_000, OPUS_RATES_HZ, ", ".join(map(str, OPUS_RATES_HZ))),
}

FORMAT_NAMES = tuple(_KINDS)


class FormatError(ValueError):
    """A format that does not exist, or a rate it cannot have."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """A wire format of mono audio.

    name: `audio/pcm` (16 bit, little endian), `audio/pcmu`, `audio/pcma`, or `audio/opus` (one raw
        packet per payload).
    rate_hz: rate of the samples that its decoder gives and its encoder takes; 0 stands for the
        format's own default and is replaced by it.
    Raises FormatError.
    """

    name: str = PCM
    rate_hz: int = 0

    def __post_init__(self) -> None:
        kind = _KINDS.get(self.name)
        if kind is None:
            known = ", ".join(FORMAT_NAMES)
            raise FormatError(f"unknown audio format {self.name!r}: expected one of {known}")
        if self.rate_hz == 0:
            object.__setattr__(self, "rate_hz", kind.default_hz)
        elif self.rate_hz not in kind.rates_hz:
            raise FormatError(
                f"{self.name} cannot have a rate of {self.rate_hz} Hz: expected {kind.allowed}"
            )

    def to_samples(self, ms: int) -> int:
        """Whole samples in this many milliseconds."""
        return ms_to_samples(ms, self.rate_hz)

    def to_ms(self, samples: int) -> int:
        """Whole milliseconds in this many samples."""
        return samples_to_ms(samples, self.rate_hz)


def ms_to_samples(ms: int, rate_hz: int) -> int:
    """Whole samples in `ms` milliseconds, rounded down."""
    return ms * rate_hz // 1000


def samples_to_ms(samples: int, rate_hz: int) -> int:
    """Whole milliseconds in `samples`, rounded down."""
    return samples * 1000 // rate_hz
