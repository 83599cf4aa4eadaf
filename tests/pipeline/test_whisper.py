"""The Transcriber on human speech."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from speech_scoring import recordings, word_error_rate
from stage_driver import StageDriver

from pipeline.messages import Audio, End, Plan, Start, TextDelta
from pipeline.stage import Input, Output, StageSettings, Work
from pipeline.stages.whisper import Whisper

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def whisper(models_home: Path) -> Iterator[StageDriver]:
    stage = Whisper(StageSettings(threads=2, home=models_home))
    stage.load()
    yield StageDriver(stage)


def hear(driver: StageDriver, samples: NDArray[np.int16], **hints: str) -> tuple[str, End]:
    start = Start("r", Plan.TRANSCRIBE, **hints)  # type: ignore[arg-type]
    outputs = driver.run(start, [Input(Audio(len(samples)), samples), Input(End())])
    return text_of(outputs), end_of(outputs)


def text_of(outputs: list[Output]) -> str:
    return "".join(o.message.text for o in outputs if isinstance(o.message, TextDelta))


def end_of(outputs: list[Output]) -> End:
    end = outputs[-1].message
    assert isinstance(end, End)
    return end


def test_people_are_understood(whisper: StageDriver) -> None:
    said = [recording.transcript for recording in recordings()]
    heard = [hear(whisper, recording.samples)[0] for recording in recordings()]
    assert word_error_rate(said, heard) <= 0.15, heard


def test_a_cut_utterance_that_ends_with_its_last_word_is_understood(whisper: StageDriver) -> None:
    said, heard = [], []
    for recording in recordings():
        said.append(recording.transcript)
        heard.append(hear(whisper, recording.samples[: recording.speech_end_ms * 16])[0])
    assert word_error_rate(said, heard) <= 0.15, heard


def test_the_first_word_is_heard_of_a_recording_that_begins_with_it(whisper: StageDriver) -> None:
    clip = next(r for r in recordings() if r.name == "cards_005.wav")
    cut = clip.samples[clip.speech_start_ms * 16 : clip.speech_end_ms * 16 + 1600]
    start = Start("r", Plan.TRANSCRIBE, word_times=True)
    outputs = whisper.run(start, [Input(Audio(len(cut)), cut), Input(End())])
    assert text_of(outputs).startswith("8 of spades")
    words = end_of(outputs).meta["words"]
    assert words[0][1] == 0
    assert words[-1][2] <= len(cut) / 16_000


def test_more_than_one_window_is_heard_to_its_end(whisper: StageDriver) -> None:
    spoken = [r for r in recordings() if r.name.startswith("librivox")] * 4  # 53 s
    text, end = hear(whisper, np.concatenate([r.samples for r in spoken]))
    assert word_error_rate([" ".join(r.transcript for r in spoken)], [text]) <= 0.25
    assert end.meta["seconds"] == pytest.approx(sum(len(r.samples) for r in spoken) / 16_000)


def test_audio_in_parts_gives_the_same_text(whisper: StageDriver) -> None:
    samples = recordings()[0].samples
    cut = len(samples) // 3
    inputs = [
        Input(Audio(len(samples)), samples[:cut], 0, 2),
        Input(Audio(len(samples)), samples[cut:], 1, 2),
        Input(End()),
    ]
    assert text_of(whisper.run(Start("r", Plan.TRANSCRIBE), inputs)) == hear(whisper, samples)[0]


def test_inputs_are_copied_before_their_slot_is_reused(whisper: StageDriver) -> None:
    stage, samples = whisper.stage, recordings()[6].samples.copy()
    expected, _ = hear(whisper, samples)
    stage.open(Start("r", Plan.TRANSCRIBE))
    assert stage.step([Work("r", [Input(Audio(len(samples)), samples)])]) == []
    samples[:] = 0
    assert text_of(stage.step([Work("r", [Input(End())])])) == expected
    stage.close("r")


def test_silence_is_told_from_speech_by_its_meta(whisper: StageDriver) -> None:
    _, silence = hear(whisper, np.zeros(32_000, np.int16))
    _, speech = hear(whisper, recordings()[0].samples)
    assert silence.meta["no_speech_prob"] > speech.meta["no_speech_prob"]


@pytest.mark.parametrize("samples", [0, 800])
def test_what_is_too_short_to_be_a_word_has_no_text(whisper: StageDriver, samples: int) -> None:
    text, end = hear(whisper, np.zeros(samples, np.int16))
    assert text == ""
    assert end.meta["no_speech_prob"] == 1.0


def test_a_prompt_is_a_hint_for_spelling(whisper: StageDriver) -> None:
    clip = next(r for r in recordings() if r.name == "librivox_0870.wav").samples
    plain, _ = hear(whisper, clip)
    hinted, _ = hear(whisper, clip, prompt="A letter about Mister Jon Dashwoode, Esquire.")
    assert "Dashwoode" not in plain
    assert "Dashwoode" in hinted or "Mister" in hinted


def test_each_token_has_its_probability_if_asked_for(whisper: StageDriver) -> None:
    samples = recordings()[0].samples
    inputs = [Input(Audio(len(samples)), samples), Input(End())]
    outputs = whisper.run(Start("r", Plan.TRANSCRIBE, token_logprobs=True), inputs)
    told = [one for o in outputs if isinstance(o.message, TextDelta) for one in o.message.logprobs]
    assert "".join(one.token for one in told).strip() == text_of(outputs)
    assert all(one.logprob <= 0 for one in told)
    mean = sum(one.logprob for one in told) / len(told)
    assert mean == pytest.approx(end_of(outputs).meta["avg_logprob"], abs=0.1)

    outputs = whisper.run(Start("r", Plan.TRANSCRIBE), inputs)
    assert not any(o.message.logprobs for o in outputs if isinstance(o.message, TextDelta))
