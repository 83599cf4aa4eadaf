"""The embedded VoiceBox: the same samples however its frames and chunks are cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from stage_driver import StageDriver, messages
from voice_synthesis import SENTENCES, VoiceLab, spoken

from pipeline.messages import Alignment, Audio, End, Failed, Frames, Plan, Start
from pipeline.stage import Input, Output, StageSettings, Work
from pipeline.stages.hibari_dsp import FRAME_WIDTH, HOP, FrameSynthesis, silent_frames
from pipeline.stages.hibari_voicebox import HibariVoiceBox
from pipeline.voices import VOICES

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def lab(models_home: Path) -> VoiceLab:
    return VoiceLab(models_home)


@pytest.fixture(scope="module")
def talked(lab: VoiceLab) -> list[Output]:
    return lab.frames(SENTENCES[3], Start("r", Plan.TTS))


def joined(outputs: list[Output]) -> NDArray[np.float32]:
    return np.concatenate([output.array for output in outputs if output.array is not None])


def one_shot(frames: NDArray[np.float32], median: float, voice: str) -> NDArray[np.float32]:
    synthesis = FrameSynthesis(VOICES[voice], seed=5)
    synthesis.push(frames, median)
    synthesis.finish()
    return synthesis.pull(synthesis.ready)


@pytest.mark.models
@pytest.mark.parametrize("voice", VOICES)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_chunking_gives_the_samples_of_one_shot(
    voice: str, talked: list[Output], data: st.DataObject
) -> None:
    frames = joined(talked)
    first = talked[0].message
    assert isinstance(first, Frames)
    median = float(first.meta["f0_median_hz"])
    expected = one_shot(frames, median, voice)
    synthesis = FrameSynthesis(VOICES[voice], seed=5)
    pieces = []
    at = 0
    while at < len(frames):
        size = data.draw(st.sampled_from([1, 2, 3, 7, 16, 40, 80]))
        synthesis.push(frames[at : at + size], median)
        at += size
        pieces.append(synthesis.pull(data.draw(st.integers(0, 90))))
    synthesis.finish()
    while synthesis.ready:
        pieces.append(synthesis.pull(data.draw(st.integers(1, 90))))
    streamed = np.concatenate(pieces)
    assert len(streamed) == len(expected) == len(frames) * HOP
    assert np.abs(streamed - expected).max() <= TOLERANCE


@pytest.mark.models
def test_a_streamed_reply_equals_its_one_shot_reply_through_the_stage(
    lab: VoiceLab, talked: list[Output]
) -> None:
    start = Start("r", Plan.TTS, seed=3)
    whole = StageDriver(HibariVoiceBox(StageSettings()))
    inputs = [Input(output.message, output.array) for output in talked]
    at_once = spoken(whole.run(start, inputs))
    stage = HibariVoiceBox(StageSettings())
    stage.open(start)
    outputs: list[Output] = []
    for given_input in inputs:
        work = Work("r", [given_input], lead_ms=60.0)
        outputs += stage.step([work])
        while work.more:
            work = Work("r", lead_ms=200.0)
            outputs += stage.step([work])
    assert isinstance(outputs[-1].message, End)
    streamed = spoken(outputs)
    assert len(streamed.chunks) > len(at_once.chunks)
    assert np.abs(streamed.samples - at_once.samples).max() <= TOLERANCE
    assert streamed.spans == at_once.spans


def test_the_first_chunk_is_small_and_chunks_grow_with_the_lead() -> None:
    stage = HibariVoiceBox(StageSettings())
    stage.open(Start("r", Plan.TTS, latency_first=True))
    work = Work("r", [Input(Frames(), silent_frames(240))], lead_ms=0.0)
    sizes = []
    for lead_ms in (0.0, 150.0, 600.0, 4000.0):
        work.lead_ms = lead_ms
        sizes += [o.message.samples for o in stage.step([work]) if isinstance(o.message, Audio)]
        work = Work("r")
    assert sizes[0] <= 24_000 * 0.13
    assert sizes == sorted(sizes)
    assert sizes[-1] == 24_000


def test_quality_first_chunks_are_large() -> None:
    stage = HibariVoiceBox(StageSettings())
    stage.open(Start("r", Plan.TTS, latency_first=False))
    inputs = [Input(Frames(), silent_frames(240))]
    outputs = stage.step([Work("r", inputs, lead_ms=0.0)])
    assert [o.message.samples for o in outputs if isinstance(o.message, Audio)] == [24_000]


def test_one_step_is_one_chunk() -> None:
    stage = HibariVoiceBox(StageSettings())
    stage.open(Start("r", Plan.TTS))
    work = Work("r", [Input(Frames(), silent_frames(400)), Input(End())])
    while True:
        outputs = stage.step([work])
        assert sum(isinstance(message, Audio) for message in messages(outputs)) <= 1
        if any(isinstance(message, End) for message in messages(outputs)):
            break
        assert work.more
        work = Work("r")


def test_frames_are_copied_before_their_slot_is_reused() -> None:
    rng = np.random.default_rng(0)
    frames = silent_frames(40)
    frames[:, 2 * 601 : 3 * 601] = rng.normal(-3, 0.1, (40, 601))
    expected = one_shot(frames.copy(), 200.0, "marin")
    stage = HibariVoiceBox(StageSettings())
    stage.open(Start("r", Plan.TTS, seed=5))
    outputs = stage.step([Work("r", [Input(Frames(), frames)])])
    frames[:] = 0
    work = Work("r", [Input(End())])
    while not any(isinstance(message, End) for message in messages(outputs)):
        outputs += stage.step([work])
        work = Work("r")
    assert np.abs(spoken(outputs).samples - expected).max() <= TOLERANCE


def test_the_seed_decides_the_noise() -> None:
    frames = silent_frames(20)
    frames[:, 2 * 601 : 3 * 601] = -3

    def noise(seed: int) -> NDArray[np.float32]:
        synthesis = FrameSynthesis(VOICES["marin"], seed)
        synthesis.push(frames, 200.0)
        synthesis.finish()
        return synthesis.pull(synthesis.ready)

    assert np.array_equal(noise(1), noise(1))
    assert np.abs(noise(1) - noise(2)).max() > 0.003


def test_silent_frames_are_silent() -> None:
    synthesis = FrameSynthesis(VOICES["cedar"], 0)
    synthesis.push(silent_frames(40), 200.0)
    synthesis.finish()
    assert np.abs(synthesis.pull(40)).max() < 1e-5


@pytest.mark.models
def test_an_alignment_comes_before_the_audio_it_describes(lab: VoiceLab) -> None:
    start = Start("r", Plan.TTS)
    frames = [Input(o.message, o.array) for o in lab.frames(SENTENCES[1], start)]
    made = 0
    spans: list[tuple[int, int, int]] = []
    for message in messages(StageDriver(HibariVoiceBox(StageSettings())).run(start, frames)):
        if isinstance(message, Alignment):
            assert message.exact
            assert all(end > made for _, _, end in message.spans)
            spans += message.spans
        elif isinstance(message, Audio):
            made += message.samples
            assert not spans or spans[-1][2] <= made
    assert len(spans) == len(SENTENCES[1].split())


def test_frames_of_another_width_fail_their_request_alone() -> None:
    stage = HibariVoiceBox(StageSettings())
    driver = StageDriver(stage)
    with pytest.raises(Exception, match=str(FRAME_WIDTH)):
        driver.run(Start("r", Plan.TTS), [Input(Frames(), np.zeros((3, 7), np.float32))])
    assert not any(
        isinstance(m, Failed)
        for m in messages(
            driver.run(Start("s", Plan.TTS), [Input(Frames(), silent_frames(8)), Input(End())])
        )
    )
