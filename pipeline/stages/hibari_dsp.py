"""The signal model of the embedded voice, streamed: acoustic frames in, samples out, in any chunks.

The model is hibari's: a pulse train filtered by the harmonic branch, noise shaped by a second and
a third branch with phases of its own, and one inverse STFT (1200 points, hop 300, Hann, 24 kHz).
Here the frames lie on an endless line with silence on both sides, so that no sample depends on how
the line was cut: the phase of the pulses is carried, noise is drawn per frame number, and what the
next frames still add to a sample is waited for.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from pipeline.voices import NETWORK_F0_HZ, Voice

__all__ = [
    "BINS",
    "FRAME_WIDTH",
    "HOP",
    "LOOK_AHEAD",
    "SILENCE_LEVEL",
    "FrameSynthesis",
    "frame_power",
    "silent_frames",
]

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Spectra = NDArray[np.complex64]

HOP = 300
"""Samples per frame at 24 kHz: 12.5 ms."""

BINS = 601
FRAME_WIDTH = 5 * BINS + 1
"""A frame is lh, theta, ln, lr, phi (601 bins of 20 Hz each) and F0 in Hz."""

LOOK_AHEAD = 4
"""Frames that must be known beyond a block of samples: two by the inverse STFT's window, one by
the window on the pulses, one by the interpolation of F0."""

SILENCE_LEVEL = -15.0
"""Log magnitude of every branch in a silent frame: under -120 dBFS."""

_FFT = 1200
_RATE = 24_000
_BIN_HZ = _RATE / _FFT
_VOICED_HZ = 40.0
_PULSE_MAX_HZ = 11_000.0
_KNEE = 0.8
_NOISE_FLOOR = -7.0  # log magnitude under which a frame's noise branch is inaudible (-84 dBFS)

_WINDOW = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FFT) / _FFT)).astype(np.float32)
# A cosine of amplitude 1 gets magnitude 1, so that exp(lh) is the amplitude of a harmonic.
_SOURCE_WINDOW = (_WINDOW / (_FFT / 4)).astype(np.float32)
# The squared windows of four overlapping frames sum to 1.5 everywhere.
_OUTPUT_WINDOW = (_WINDOW / 1.5).astype(np.float32)
_POWER_SCALE = 2.0 / (_FFT * float(np.sum(_WINDOW.astype(np.float64) ** 2)))


def silent_frames(count: int) -> Floats:
    """Frames of true silence, shape [count, FRAME_WIDTH]."""
    frames = np.zeros((count, FRAME_WIDTH), np.float32)
    for branch in (0, 2, 3):
        frames[:, branch * BINS : (branch + 1) * BINS] = SILENCE_LEVEL
    return frames


def frame_power(frames: Floats) -> tuple[Doubles, Doubles]:
    """Mean square of the voiced and of the unvoiced part of each frame, both of shape [n].

    An estimate from the magnitudes alone: what the parts cancel is not seen, so it lies a few dB
    above the power of the samples.
    """
    branch = [frames[:, i * BINS : (i + 1) * BINS] for i in range(5)]
    f0 = np.maximum(frames[:, -1], _VOICED_HZ)
    bins = np.arange(BINS, dtype=np.float32)
    harmonic = np.exp(2 * np.minimum(branch[0], 7.0))
    harmonic[bins[None, :] * _BIN_HZ < 0.75 * f0[:, None]] = 0
    voiced = harmonic.sum(1, dtype=np.float64) * (1.5 * _POWER_SCALE * _BIN_HZ) / f0
    voiced[frames[:, -1] < _VOICED_HZ] = 0
    noise = np.exp(2 * np.minimum(branch[2], 7.0)).sum(1, dtype=np.float64) * 2 * _POWER_SCALE
    free = np.exp(2 * np.minimum(branch[3], 7.0)).sum(1, dtype=np.float64) * _POWER_SCALE
    return voiced, noise + free


class FrameSynthesis:
    """One reply's line of frames, and the samples made of it so far.

    `push` frames, `pull` blocks of HOP samples; `finish` when no more frames come. Block m is the
    time from frame m to frame m + 1, so a reply of n frames has n blocks.
    """

    def __init__(self, voice: Voice, seed: int) -> None:
        self._voice = voice
        self._seed = seed
        self._queue: deque[Floats] = deque()  # whole payloads, the first partly used
        self._used = 0  # frames of the first payload already turned into spectra
        self._f0: Floats = np.zeros(1, np.float32)  # mapped F0 from frame `_pulsed` - 1 on
        self._received = 0
        self._spectra = 0  # frames turned into spectra
        self._pulsed = 0  # blocks of pulses made
        self._pulled = 0  # blocks given out
        self._finished = False
        self._phase = 0.0  # of the pulses, in cycles
        self._pulse_tail: Floats = np.zeros(2 * HOP, np.float32)  # the two blocks before frame 0
        self._overlap: Floats = np.zeros((3, HOP), np.float32)  # blocks begun but not complete
        self._skip = 2  # blocks before frame 0, which only its window reaches
        self._warp = _Warp(voice)

    @property
    def received(self) -> int:
        """Frames pushed so far."""
        return self._received

    @property
    def pulled(self) -> int:
        """Blocks given out so far."""
        return self._pulled

    @property
    def ready(self) -> int:
        """Blocks that can be pulled now."""
        known = self._received if self._finished else self._received - LOOK_AHEAD
        return max(0, known - self._pulled)

    def push(self, frames: Floats, f0_median_hz: float) -> None:
        """Append frames [n, FRAME_WIDTH]; the array is kept and must not change.

        f0_median_hz: the median F0 of the clause the frames belong to, over its voiced frames.
        """
        self._queue.append(frames)
        self._received += len(frames)
        self._f0 = np.concatenate([self._f0, self._map_f0(frames[:, -1], f0_median_hz)])

    def finish(self) -> None:
        """No more frames come: what follows is silence."""
        if not self._finished:
            self._finished = True
            self._queue.append(silent_frames(LOOK_AHEAD))
            self._f0 = np.concatenate([self._f0, np.zeros(LOOK_AHEAD, np.float32)])

    def pull(self, blocks: int) -> Floats:
        """The next `blocks` (at most `ready`) blocks: float32 [blocks * HOP], within -1 to 1."""
        blocks = min(blocks, self.ready)
        if blocks <= 0:
            return np.zeros(0, np.float32)
        count = self._pulled + blocks + 2 - self._spectra
        pulses = self._make_pulses(count)
        waves = scipy.fft.irfft(self._make_spectra(count, pulses), n=_FFT, axis=1)
        waves *= _OUTPUT_WINDOW
        parts = waves.reshape(count, 4, HOP)
        out = np.zeros((count + 3, HOP), np.float32)
        out[:3] = self._overlap
        for k in range(4):
            out[k : k + count] += parts[:, k]
        self._overlap = out[count:].copy()
        done = out[self._skip : count]
        self._skip = 0
        self._pulled += blocks
        return self._level(done.reshape(-1))

    def _map_f0(self, f0: Floats, median: float) -> Floats:
        """The voice's F0: its target at the clause's median, its range around it.

        Clauses keep at most 1.5 % of their own height, so that any sentence's median is near the
        target.
        """
        voice = self._voice
        height = min(max(median / NETWORK_F0_HZ, 0.985), 1.015)
        ratio = np.maximum(f0, 0) / np.float32(max(median, 1.0))
        mapped = voice.f0_hz * height * np.power(ratio, np.float32(voice.pitch_range))
        return mapped.astype(np.float32)

    def _make_pulses(self, count: int) -> Floats:
        """Pulses under the windows of the next `count` frames: [(count + 3) * HOP].

        Band-limited: every harmonic below 11 kHz at amplitude 1,
        sum cos(h t), h = 1..H, is sin((H + 1/2) t) / (2 sin(t / 2)) - 1/2.
        """
        blocks = self._spectra + count + 1 - self._pulsed
        f0 = self._f0[: blocks + 2].astype(np.float64)
        self._f0 = self._f0[blocks:]
        before, here, after = f0[:-2, None], f0[1:-1, None], f0[2:, None]
        at = (np.arange(HOP) + 0.5) / HOP - 0.5
        half = HOP // 2
        hz = np.empty((blocks, HOP))
        hz[:, :half] = here + (here - before) * at[:half]
        hz[:, half:] = here + (after - here) * at[half:]
        threshold = _VOICED_HZ * self._voice.f0_hz / NETWORK_F0_HZ
        voiced = hz > threshold
        np.maximum(hz, threshold, out=hz)
        cycles = np.cumsum(hz, axis=1)
        cycles /= _RATE
        # One running sum, frame by frame: the same numbers however the frames arrive.
        starts = np.cumsum(np.concatenate([[self._phase], cycles[:, -1]]))
        self._phase = float(starts[-1])
        cycles += (starts[:-1] % 1.0)[:, None]
        pulses = _dirichlet(cycles % 1.0, hz)
        pulses[~voiced] = 0
        joined = np.concatenate([self._pulse_tail, pulses.reshape(-1)])
        self._pulse_tail = joined[-3 * HOP :].copy()
        self._pulsed += blocks
        return joined

    def _make_spectra(self, count: int, pulses: Floats) -> Spectra:
        first = self._spectra
        rows = self._take(count)
        self._spectra += count
        windows = np.lib.stride_tricks.sliding_window_view(pulses, _FFT)[::HOP][:count]
        source: Spectra = scipy.fft.rfft(windows * _SOURCE_WINDOW, axis=1, overwrite_x=True)
        lh, theta, ln, lr, phi = self._warp(rows, first)
        turn = np.tanh(theta)
        turn *= np.float32(np.pi)
        source *= _polar(lh, turn)
        source += _polar(lr, phi)
        self._add_noise(source, ln, first)
        return source

    def _take(self, count: int) -> Floats:
        """The next `count` frames of the queue, in one array."""
        parts = []
        while count > 0:
            head = self._queue[0]
            part = head[self._used : self._used + count]
            parts.append(part)
            count -= len(part)
            self._used += len(part)
            if self._used == len(head):
                self._queue.popleft()
                self._used = 0
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _add_noise(self, spectra: Spectra, ln: Floats, first: int) -> None:
        """Gaussian noise, from a generator that counts frames: frame k's is always the same."""
        for i in np.flatnonzero(ln.max(axis=1) > _NOISE_FLOOR):
            bits = np.random.Philox(key=self._seed & (2**64 - 1), counter=[0, 0, first + int(i), 0])
            drawn = np.random.Generator(bits).standard_normal(2 * BINS, dtype=np.float32)
            spectra[i] += drawn.view(np.complex64) * np.exp(np.minimum(ln[i], 7.0))

    def _level(self, samples: Floats) -> Floats:
        """Gain, and a soft limit that looks at one sample at a time."""
        samples = samples * np.float32(10 ** (self._voice.gain_db / 20))
        size = np.abs(samples)
        loud = size > _KNEE
        if loud.any():
            over = np.tanh((size[loud] - _KNEE) / (1 - _KNEE))
            samples[loud] = np.sign(samples[loud]) * (_KNEE + (1 - _KNEE) * over)
        return samples


class _Warp:
    """A voice's envelope: bins moved by its formant factor, and its tilt."""

    def __init__(self, voice: Voice) -> None:
        bins = np.arange(BINS)
        source = np.minimum(bins / voice.formant, BINS - 1.0)
        self._moves = voice.formant != 1.0
        self._transposes = abs(voice.f0_hz / NETWORK_F0_HZ - 1) > 0.03
        self._low = np.floor(source).astype(np.intp)
        self._high = np.minimum(self._low + 1, BINS - 1)
        self._weight = (source - self._low).astype(np.float32)
        self._nearest = np.rint(source).astype(np.intp)
        # A component's phase turns by a quarter per bin and frame; moved bins turn differently.
        self._quarter = (bins - self._nearest) % 4
        octaves = np.log2(np.maximum(bins * _BIN_HZ, 1000.0) / 1000.0)
        self._tilt = (octaves * voice.tilt_db * np.log(10) / 20).astype(np.float32)
        self._breath = np.float32(voice.breath_db * np.log(10) / 20)

    def __call__(self, rows: Floats, first: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        lh, theta, ln, lr, phi = (rows[:, i * BINS : (i + 1) * BINS] for i in range(5))
        if self._transposes:
            lh = _between_harmonics(lh, rows[:, -1])
        if self._moves:
            lh, theta, ln, lr = (self._blend(part) for part in (lh, theta, ln, lr))
            frames = np.arange(first, first + len(rows)) % 4
            turns = (frames[:, None] * self._quarter[None, :]) % 4
            turned = phi[:, self._nearest]
            turned += turns.astype(np.float32) * np.float32(np.pi / 2)
            phi = turned
        if self._tilt.any():
            lh = lh + self._tilt
        if self._breath:
            voiced = rows[:, -1:] > _VOICED_HZ
            lr = lr + self._breath * voiced.astype(np.float32)
        return lh, theta, ln, lr, phi

    def _blend(self, part: Floats) -> Floats:
        low = part[:, self._low]
        return low + (part[:, self._high] - low) * self._weight


def _between_harmonics(lh: Floats, f0: Floats) -> Floats:
    """The envelope through the harmonics of the network's own pitch: [n, BINS].

    The network was only ever heard at its harmonics. In between, and under the first one, its
    values mean nothing, and there the harmonics of another pitch would lie: half of them too weak,
    and the voice heard an octave up.
    """
    spacing: Floats = np.maximum(f0[:, None], np.float32(_VOICED_HZ))
    spacing /= np.float32(_BIN_HZ)
    order = np.arange(BINS, dtype=np.float32) / spacing
    below: Floats = np.maximum(np.floor(order), np.float32(1))
    low = _at_bins(lh, below * spacing)
    high = _at_bins(lh, (below + 1) * spacing)
    blended = low + (high - low) * np.clip(order - below, 0, 1)
    return np.where(f0[:, None] > _VOICED_HZ, blended, lh).astype(np.float32)


def _at_bins(values: Floats, places: Floats) -> Floats:
    """Linear interpolation along the rows."""
    places = np.minimum(places, BINS - 1)
    first = np.minimum(places.astype(np.intp), BINS - 2)
    low = np.take_along_axis(values, first, axis=1)
    high = np.take_along_axis(values, first + 1, axis=1)
    return low + (high - low) * (places - first).astype(np.float32)


def _polar(log_magnitude: Floats, phase: Floats) -> Spectra:
    out = np.empty(phase.shape, np.complex64)
    np.cos(phase, out=out.real)
    np.sin(phase, out=out.imag)
    out *= np.exp(np.minimum(log_magnitude, 7.0))
    return out


def _dirichlet(cycles: Doubles, hz: Doubles) -> Floats:
    """Sum of cosines 1..H at this phase, H the last harmonic under the limit."""
    angle = cycles * (2 * np.pi)
    order = np.floor(_PULSE_MAX_HZ / hz) + 0.5
    bottom = 2 * np.sin(angle / 2)
    flat = np.abs(bottom) <= 2e-3
    bottom[flat] = 1
    pulses: Doubles = np.sin(order * angle) / bottom
    pulses[flat] = order[flat]
    pulses -= 0.5
    return pulses.astype(np.float32)
