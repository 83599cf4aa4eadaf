"""Ten voices: on pitch, understood, equally loud, and all different."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from speech_scoring import word_error_rate
from voice_synthesis import SENTENCES, Listener, VoiceLab, median_f0_hz

from pipeline.voices import ALIASES, DEFAULT_VOICE, VOICES, resolve_voice

OPENAI_NAMES = "alloy ash ballad coral echo sage shimmer verse marin cedar fable nova onyx".split()


@pytest.fixture(scope="module")
def lab(models_home: Path) -> VoiceLab:
    return VoiceLab(models_home)


@pytest.fixture(scope="module")
def listener(models_home: Path) -> Listener:
    return Listener(models_home)


@pytest.fixture(scope="module")
def readings(lab: VoiceLab) -> dict[str, list[NDArray[np.float32]]]:
    """Every sentence in every voice."""
    return {
        name: [lab.speak(text, voice=name, seed=i).samples for i, text in enumerate(SENTENCES)]
        for name in VOICES
    }


def test_every_name_that_clients_use_is_a_voice() -> None:
    for name in OPENAI_NAMES:
        assert resolve_voice(name).name == ALIASES.get(name, name)


def test_an_unknown_name_gets_the_default_voice() -> None:
    assert resolve_voice("nobody").name == DEFAULT_VOICE


@pytest.mark.models
@pytest.mark.parametrize("name", VOICES)
def test_a_voice_has_its_pitch_in_any_sentence(
    name: str, readings: dict[str, list[NDArray[np.float32]]]
) -> None:
    target = VOICES[name].f0_hz
    deviations = [median_f0_hz(samples) / target - 1 for samples in readings[name]]
    assert abs(np.median(deviations)) <= 0.015
    assert np.abs(deviations).max() <= 0.035
    whole = median_f0_hz(np.concatenate(readings[name]))
    assert abs(whole / target - 1) <= 0.03


@pytest.mark.models
@pytest.mark.parametrize("name", VOICES)
def test_a_voice_is_understood(
    name: str, readings: dict[str, list[NDArray[np.float32]]], listener: Listener
) -> None:
    heard = [listener.hear(samples) for samples in readings[name]]
    assert word_error_rate(SENTENCES, heard) <= 0.12, heard


@pytest.mark.models
def test_voices_are_equally_loud_and_never_clip(
    readings: dict[str, list[NDArray[np.float32]]],
) -> None:
    levels = {}
    for name, samples in readings.items():
        joined = np.concatenate(samples)
        assert np.abs(joined).max() < 0.95, name
        sounding = joined[np.abs(joined) > 0.003]
        levels[name] = 10 * np.log10(np.mean(sounding**2))
    assert max(levels.values()) - min(levels.values()) <= 2.0, levels


@pytest.mark.models
def test_voices_of_near_pitch_differ_in_their_formants(lab: VoiceLab) -> None:
    """Long-term spectra, 1/3 octaves from 300 Hz to 6 kHz, of every pair less than 20 % apart."""
    spectra = {name: third_octaves(lab.speak(SENTENCES[0], voice=name).samples) for name in VOICES}
    for one, first in VOICES.items():
        for other, second in VOICES.items():
            if one < other and abs(np.log(first.f0_hz / second.f0_hz)) < 0.1:
                distance = np.sqrt(np.mean((spectra[one] - spectra[other]) ** 2))
                assert distance > 0.6, (one, other)


def third_octaves(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """Levels in dB, their mean taken out."""
    frames = np.lib.stride_tricks.sliding_window_view(samples, 1024)[::256]
    power = (np.abs(np.fft.rfft(frames * np.hanning(1024), axis=1)) ** 2).mean(0)
    edges = 300 * 2 ** (np.arange(14) / 3)
    bins = np.searchsorted(np.fft.rfftfreq(1024, 1 / 24_000), edges)
    levels = [
        10 * np.log10(power[a : max(b, a + 1)].mean()) for a, b in zip(bins, bins[1:], strict=False)
    ]
    relative: NDArray[np.float64] = np.asarray(levels) - np.mean(levels)
    return relative
