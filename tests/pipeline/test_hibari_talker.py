"""The embedded Talker: clauses spoken early, pauses that fit, and words where they are heard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fricatives import HISSING_SENTENCES, hiss_onsets
from numpy.typing import NDArray
from stage_driver import StageDriver, messages
from voice_synthesis import Spoken, VoiceLab

from pipeline.clauses import ClauseSplitter, Join
from pipeline.messages import OUTPUT_RATE_HZ, Condition, End, Frames, Plan, Start
from pipeline.stage import Input, Output, Work
from pipeline.stages.hibari_dsp import FRAME_WIDTH

pytestmark = pytest.mark.models

FRAME = OUTPUT_RATE_HZ // 200  # 5 ms
AUDIBLE_DBFS = -50.0


@pytest.fixture(scope="module")
def lab(models_home: Path) -> VoiceLab:
    return VoiceLab(models_home)


def pauses_ms(samples: NDArray[np.float32]) -> list[float]:
    """Silences inside the speech of at least 40 ms, in order."""
    usable = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    level = 10 * np.log10((usable**2).mean(1) + 1e-12)
    loud = np.flatnonzero(level > AUDIBLE_DBFS)
    gaps = np.diff(loud) - 1
    return [float(gap) * 5 for gap in gaps if gap * 5 >= 40]


def pause_at_ms(samples: NDArray[np.float32], sample: int) -> float:
    """Length of the silence around this sample or right after it; 0 if there is none."""
    usable = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    loud = 10 * np.log10((usable**2).mean(1) + 1e-12) > AUDIBLE_DBFS
    centre = sample // FRAME
    quiet = [i for i in range(centre - 8, centre + 9) if not loud[i]]
    if not quiet:
        return 0.0
    first = last = quiet[len(quiet) // 2]
    while not loud[first - 1]:
        first -= 1
    while not loud[last + 1]:
        last += 1
    return float(last + 1 - first) * 5


def edges_ms(samples: NDArray[np.float32]) -> tuple[float, float]:
    """Silence before the first and after the last audible frame."""
    usable = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    level = 10 * np.log10((usable**2).mean(1) + 1e-12)
    loud = np.flatnonzero(level > AUDIBLE_DBFS)
    return float(loud[0]) * 5, float(len(usable) - 1 - loud[-1]) * 5


@pytest.mark.parametrize("text", ["Hello.", "She sells shells.", "Four people came.", "Ah."])
@pytest.mark.parametrize("voice", ["marin", "cedar"])
def test_a_reply_is_heard_from_its_first_20_ms(lab: VoiceLab, text: str, voice: str) -> None:
    before, after = edges_ms(lab.speak(text, voice=voice).samples)
    assert before <= 20
    assert after <= 100


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The meeting is over.", " We can go home now."),
        ("Nobody was there!", " So we left again."),
        ("Are you sure?", " I would like to know more."),
    ],
)
def test_a_sentence_is_followed_by_300_to_450_ms(lab: VoiceLab, first: str, second: str) -> None:
    pause = max(pauses_ms(lab.speak(first + second).samples))
    assert 300 <= pause <= 450


@pytest.mark.parametrize(
    "text",
    [
        "Well then, we should be going home before all of the others do.",
        "On a warm day, people walk along the river and eat ice cream.",
    ],
)
def test_a_comma_between_pieces_is_followed_by_150_to_250_ms(lab: VoiceLab, text: str) -> None:
    request = Start("r", Plan.TTS, latency_first=True)
    frames = lab.frames(text, request)
    assert sum(bool(o.message.meta["clause_end"]) for o in frames if isinstance(o.message, Frames))
    assert 150 <= max(pauses_ms(lab.speak(text, latency_first=True).samples)) <= 250


def test_a_join_inside_a_phrase_is_hardly_a_pause(lab: VoiceLab) -> None:
    text = (
        "The people of the village came together to celebrate the opening of a bridge that will "
        "make the long way to work much shorter for everybody on this side of the river."
    )
    splitter = ClauseSplitter(latency_first=True)
    pieces = splitter.feed(text) + splitter.flush()
    assert [piece.join for piece in pieces[:-1]] == [Join.NONE] * (len(pieces) - 1)
    assert len(pieces) >= 2
    speech = lab.speak(text)
    for piece in pieces[:-1]:
        end = len(text[: piece.char_end].rstrip())
        (sample,) = [sample for _, last, sample in speech.spans if last == end]
        assert pause_at_ms(speech.samples, sample) <= 120


def test_quality_first_speaks_a_sentence_in_one_go(lab: VoiceLab) -> None:
    text = "On a warm day, people walk along the river and eat ice cream."
    for latency_first, pieces in ((True, 2), (False, 1)):
        start = Start("r", Plan.TTS, latency_first=latency_first)
        outputs = [o.message for o in lab.frames(text, start)]
        ends = [m for m in outputs if isinstance(m, Frames) and m.meta["clause_end"]]
        assert len(ends) == pieces


def boundary_errors(speech: Spoken, text: str) -> tuple[list[float], list[float]]:
    """Seconds between the boundaries that are heard and those of the alignment, and those of a map
    that is merely proportional to the text."""
    ends = {end: sample / OUTPUT_RATE_HZ for _, end, sample in speech.spans}
    total = speech.spans[-1][2] / OUTPUT_RATE_HZ
    heard = hiss_onsets(speech.samples, text, ends)
    assert len(heard) >= 20
    aligned = [abs(ends[at] - seconds) for at, seconds in heard]
    proportional = [abs(at / len(text) * total - seconds) for at, seconds in heard]
    return aligned, proportional


@pytest.mark.parametrize("voice", ["marin", "cedar", "shimmer"])
def test_words_end_where_they_are_heard_to_end(lab: VoiceLab, voice: str) -> None:
    # The text of numbers is short and their sound is long: a proportional map gets lost.
    text = "We paid $1,250 on 3/14. " + " ".join(HISSING_SENTENCES)
    aligned, proportional = boundary_errors(lab.speak(text, voice=voice), text)
    assert np.median(aligned) <= 0.06
    assert np.median(proportional) > 0.06


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.5])
def test_speed_changes_the_length_and_the_alignment_with_it(lab: VoiceLab, speed: float) -> None:
    text = " ".join(HISSING_SENTENCES)
    normal, changed = lab.speak(text), lab.speak(text, speed=speed)
    assert len(changed.samples) * speed == pytest.approx(len(normal.samples), rel=0.15)
    assert np.median(boundary_errors(changed, text)[0]) <= 0.06 / min(speed, 1)


def test_the_alignment_covers_every_word_in_order(lab: VoiceLab) -> None:
    text = "Dr. Smith paid $12.50 for 3 **big** apples, didn't he? Yes, at 10:30!"
    spans = lab.speak(text).spans
    assert [text[start:end].strip("*,?!") for start, end, _ in spans] == [
        word.strip("*,?!") for word in text.split()
    ]
    assert [sample for _, _, sample in spans] == sorted(sample for _, _, sample in spans)


def test_the_first_clause_is_spoken_before_the_text_is_complete(lab: VoiceLab) -> None:
    stage = lab.talker
    stage.open(Start("r", Plan.TTS, latency_first=True))
    outputs: list[Output] = []
    for word in "Well, this is the rest".split(" "):
        outputs += stage.step([Work("r", [Input(Condition(text=f"{word} "))])])
    stage.close("r")
    assert outputs
    first = outputs[0]
    assert first.array is not None
    assert first.array.shape[1] == FRAME_WIDTH
    assert len(first.array) <= 16


def test_deltas_cut_anywhere_give_the_same_frames(lab: VoiceLab) -> None:
    text = "Hello there, my friend. It is 3.14 or so."
    start = Start("r", Plan.TTS)
    whole = [o.array for o in lab.frames(text, start) if o.array is not None]
    letters = [o.array for o in lab.frames(list(text), start) if o.array is not None]
    assert np.array_equal(np.concatenate(whole), np.concatenate(letters))


@pytest.mark.parametrize("text", ["", "   ", "...", "🎉", "```\ncode()\n```"])
def test_what_cannot_be_spoken_ends_quietly(lab: VoiceLab, text: str) -> None:
    assert [type(m) for m in messages(lab.frames(text, Start("r", Plan.TTS)))] == [End]


def test_two_replies_do_not_mix(lab: VoiceLab) -> None:
    texts = {"a": "The first reply is about the weather.", "b": "Another one."}
    alone = {}
    for name, text in texts.items():
        outputs = StageDriver(lab.talker).run(
            Start(name, Plan.TTS), [Input(Condition(text=text)), Input(End())]
        )
        alone[name] = np.concatenate([o.array for o in outputs if o.array is not None])
    for name in texts:
        lab.talker.open(Start(name, Plan.TTS))
    batch = [Work(n, [Input(Condition(text=t)), Input(End())]) for n, t in texts.items()]
    mixed: dict[str, list[NDArray[np.float32]]] = {name: [] for name in texts}
    ended: set[str] = set()
    while len(ended) < 2:
        for output in lab.talker.step(batch):
            if output.array is not None:
                mixed[output.request_id].append(output.array)
            if isinstance(output.message, End):
                ended.add(output.request_id)
        batch = [Work(name) for name in texts if name not in ended]
    for name in texts:
        lab.talker.close(name)
        assert np.array_equal(np.concatenate(mixed[name]), alone[name])
