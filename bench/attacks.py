"""What happens to speech on its way: codecs, telephones, noise, other speeds. For the watermark.

Each takes 24 kHz mono int16 and gives the same, as long as before or nearly so. Codecs are
FFmpeg's.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import av
import numpy as np
import soxr
from numpy.typing import NDArray

Samples = NDArray[np.int16]
Attack = Callable[[Samples], Samples]

RATE_HZ = 24_000


def through_codec(
    samples: Samples, container: str, codec: str, bit_rate: int | None, rate_hz: int
) -> Samples:
    """Encoded into a file and decoded again. bit_rate: bits a second, if the codec has a choice."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream: Any = output.add_stream(codec, rate=rate_hz)
        stream.layout = "mono"
        if bit_rate is not None:
            stream.bit_rate = bit_rate
        form = stream.codec_context.format
        resampler = av.AudioResampler(format=form, layout="mono", rate=rate_hz)
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = RATE_HZ
        frame.time_base = Fraction(1, RATE_HZ)
        frame.pts = 0
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            output.mux(stream.encode(piece))
        output.mux(stream.encode(None))
    file.seek(0)
    with av.open(file, "r") as source:
        resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE_HZ)
        decoded = [piece for frame in source.decode(audio=0) for piece in resampler.resample(frame)]
        decoded += resampler.resample(None)
        return np.concatenate([np.asarray(piece.to_ndarray()[0], np.int16) for piece in decoded])


def resampled(samples: Samples, rate_hz: int) -> Samples:
    """At another rate, and back."""
    return played(played(samples, RATE_HZ, rate_hz), rate_hz, RATE_HZ)


def played(samples: Samples, from_hz: float, to_hz: float) -> Samples:
    """Converted from one rate to another; played at the first, it is faster or slower."""
    return np.asarray(soxr.resample(samples, from_hz, to_hz), np.int16)


def louder(samples: Samples, gain_db: float) -> Samples:
    """By so many decibels; what does not fit is clipped."""
    scaled = np.rint(samples * 10 ** (gain_db / 20)).clip(-32768, 32767)
    return np.asarray(scaled, np.int16)


def with_noise(samples: Samples, ratio_db: float) -> Samples:
    """White noise so far below the speech. The noise is the same every time."""
    speech = samples[np.abs(samples) > np.abs(samples).max() // 100].astype(float)
    level = float(np.sqrt(np.mean(speech**2))) if len(speech) else 0.0
    noise = np.random.default_rng(7).standard_normal(len(samples)) * level * 10 ** (-ratio_db / 20)
    return np.rint(samples + noise).clip(-32768, 32767).astype(np.int16)


ATTACKS: Mapping[str, Attack] = {
    "none": lambda samples: samples,
    "Opus 24 kbit/s": partial(
        through_codec, container="ogg", codec="libopus", bit_rate=24_000, rate_hz=48_000
    ),
    "MP3 64 kbit/s": partial(
        through_codec, container="mp3", codec="libmp3lame", bit_rate=64_000, rate_hz=24_000
    ),
    "AAC 64 kbit/s": partial(
        through_codec, container="adts", codec="aac", bit_rate=64_000, rate_hz=24_000
    ),
    "16 kHz and back": partial(resampled, rate_hz=16_000),
    "6 dB louder": partial(louder, gain_db=6.0),
    "6 dB softer": partial(louder, gain_db=-6.0),
    "noise, 30 dB": partial(with_noise, ratio_db=30.0),
    "G.711 at 8 kHz": partial(
        through_codec, container="wav", codec="pcm_mulaw", bit_rate=None, rate_hz=8_000
    ),
    "Opus 12 kbit/s": partial(
        through_codec, container="ogg", codec="libopus", bit_rate=12_000, rate_hz=48_000
    ),
    "noise, 20 dB": partial(with_noise, ratio_db=20.0),
    "1 % faster": partial(played, from_hz=RATE_HZ * 1.01, to_hz=RATE_HZ),
    "1 % slower": partial(played, from_hz=RATE_HZ * 0.99, to_hz=RATE_HZ),
}
