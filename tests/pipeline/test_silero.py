"""The ears on human speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from speech_scoring import recordings

from pipeline.messages import Audio, Plan, Reset, Speech, Start
from pipeline.stage import Input, Output, StageSettings, Work
from pipeline.stages.silero import Silero

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def silero(models_home: Path) -> Silero:
    stage = Silero(StageSettings(home=models_home))
    stage.load()
    return stage


def given(samples: NDArray[np.int16]) -> Input:
    return Input(Audio(len(samples)), samples)


def speech(outputs: list[Output], request_id: str = "a") -> list[tuple[float, int]]:
    return [
        (o.message.probability, o.message.end_sample)
        for o in outputs
        if o.request_id == request_id and isinstance(o.message, Speech)
    ]


def judge(stage: Silero, *inputs: Input) -> list[tuple[float, int]]:
    stage.open(Start("a", Plan.LISTEN))
    outputs: list[Output] = []
    for one in inputs:
        outputs += stage.step([Work("a", [one])])
    stage.close("a")
    return speech(outputs)


def test_speech_is_heard_where_it_is(silero: Silero) -> None:
    for recording in recordings():
        judged = judge(silero, given(recording.samples))
        loud = [end // 16 for probability, end in judged if probability > 0.5]
        # Clips that begin in the middle of a word take the model a moment.
        assert 0 <= loud[0] - recording.speech_start_ms < 260, recording.name
        assert abs(loud[-1] - recording.speech_end_ms) < 300, recording.name


def test_silence_and_noise_are_no_speech(silero: Silero) -> None:
    noise = np.random.default_rng(1).normal(0, 300, 32_000).astype(np.int16)
    judged = judge(silero, given(np.zeros(32_000, np.int16)), given(noise))
    assert len(judged) == 125
    assert max(probability for probability, _ in judged) < 0.5


@pytest.mark.parametrize("size", [1, 160, 320, 511, 4000])
def test_chunks_of_any_size_give_the_same_windows(silero: Silero, size: int) -> None:
    samples = recordings()[3].samples[: 512 * 12]
    whole = judge(silero, given(samples))
    pieces = [given(samples[i : i + size]) for i in range(0, len(samples), size)]
    cut = judge(silero, *pieces)
    assert [end for _, end in cut] == [512 * i for i in range(1, 13)]
    assert np.allclose([p for p, _ in cut], [p for p, _ in whole], atol=1e-6)


def test_sessions_judged_together_hear_what_each_would_alone(silero: Silero) -> None:
    clips = {recording.name: recording.samples for recording in recordings()}
    alone = {name: judge(silero, given(samples)) for name, samples in clips.items()}
    for name in clips:
        silero.open(Start(name, Plan.LISTEN))
    outputs = silero.step([Work(name, [given(samples)]) for name, samples in clips.items()])
    for name in clips:
        silero.close(name)
        together = speech(outputs, name)
        assert [end for _, end in together] == [end for _, end in alone[name]]
        assert np.allclose([p for p, _ in together], [p for p, _ in alone[name]], atol=1e-4)


def test_a_reset_forgets_what_was_heard_and_goes_on_counting(silero: Silero) -> None:
    samples = recordings()[0].samples[: 16_000 + 100]
    fresh = judge(silero, given(samples[: 512 * 10]))
    judged = judge(silero, given(samples), Input(Reset()), given(samples[: 512 * 10]))
    after = judged[len(samples) // 512 :]
    assert [end for _, end in after] == [len(samples) + end for _, end in fresh]
    assert np.allclose([p for p, _ in after], [p for p, _ in fresh], atol=1e-6)
