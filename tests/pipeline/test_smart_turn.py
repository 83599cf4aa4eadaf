"""The turn detector on human speech, whole and cut off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scripted_engine import collect, scripted_engine
from speech_scoring import recordings
from stage_driver import StageDriver, messages

from pipeline.messages import INPUT_RATE_HZ, Audio, End, Plan, Start, TurnEnd
from pipeline.stage import Input, StageSettings
from pipeline.stages.smart_turn import SmartTurn


@pytest.fixture(scope="module")
def detector(models_home: Path) -> SmartTurn:
    stage = SmartTurn(StageSettings(home=models_home))
    stage.load()
    return stage


def judge(detector: SmartTurn, *pieces: NDArray[np.int16]) -> float:
    inputs = [Input(Audio(len(piece)), piece) for piece in pieces]
    outputs = StageDriver(detector).run(Start("a", Plan.JUDGE), [*inputs, Input(End())])
    score, end = messages(outputs)
    assert isinstance(score, TurnEnd)
    assert isinstance(end, End)
    return score.probability


@pytest.mark.models
def test_finished_sentences_sound_finished_and_fragments_do_not(detector: SmartTurn) -> None:
    clips = {recording.name: recording.samples for recording in recordings()}
    finished = [judge(detector, clips[name]) for name in clips if name.startswith("cards")]
    assert min(finished) > 0.9
    # "He was not an ill…"
    fragment = clips["librivox_0880.wav"][: int(1.4 * INPUT_RATE_HZ)]
    assert judge(detector, fragment, np.zeros(3200, np.int16)) < 0.3


@pytest.mark.models
def test_pieces_are_one_utterance_of_which_the_end_counts(detector: SmartTurn) -> None:
    clip = next(r.samples for r in recordings() if r.name == "librivox_0930.wav")
    whole = judge(detector, clip)
    assert judge(detector, clip[:9_999], clip[9_999:]) == whole
    noise = np.random.default_rng(1).integers(-3000, 3000, 8 * INPUT_RATE_HZ).astype(np.int16)
    assert judge(detector, noise, noise, clip) == judge(detector, noise, clip)


@pytest.mark.models
def test_nothing_at_all_is_judged_too(detector: SmartTurn) -> None:
    assert 0 <= judge(detector) <= 1


async def test_the_engine_judges_an_utterance_longer_than_a_slot() -> None:
    samples = np.zeros(20 * INPUT_RATE_HZ, np.int16)
    async with scripted_engine(turn_detector={"finished": 0.25}) as engine:
        assert await collect(engine.submit(Start("j", Plan.JUDGE), samples)) == [
            TurnEnd(0.25),
            End(),
        ]
        assert engine.stats().links["server-turn_detector"].lent == 0
