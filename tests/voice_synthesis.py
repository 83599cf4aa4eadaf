"""Speech made by the embedded voice, stage by stage, and how it is measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import parselmouth
import soxr
from numpy.typing import NDArray
from stage_driver import StageDriver

from pipeline.messages import (
    OUTPUT_RATE_HZ,
    Alignment,
    Audio,
    Condition,
    End,
    Plan,
    Start,
    TextDelta,
)
from pipeline.stage import Input, Output, StageSettings
from pipeline.stages.hibari_talker import HibariTalker
from pipeline.stages.hibari_voicebox import HibariVoiceBox
from pipeline.stages.whisper import Whisper

SENTENCES = (
    "The train to Cambridge leaves from platform four in about ten minutes.",
    "She asked whether the museum would still be open on Sunday morning.",
    "Please put the small green box on the shelf beside the window.",
    "Heavy rain is expected tonight, but tomorrow should be dry and bright.",
    "He had never seen so many birds gather in one place before.",
    "If you need any help, just call me and I will come over.",
    "The old bridge was closed for repairs during the whole summer.",
    "My brother plays the piano while my sister sings in the choir.",
    "Could you tell me how to get to the nearest post office?",
    "We walked along the river until the sun went down behind the hills.",
    "Fresh bread and strong coffee make a very good breakfast.",
    "They decided to sell the house and move back to the country.",
)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A reply as it was heard. samples: float32, 24 kHz. spans as in `Alignment`."""

    samples: NDArray[np.float32]
    spans: tuple[tuple[int, int, int], ...]
    chunks: tuple[int, ...]


class VoiceLab:
    """The two stages of the voice, loaded once."""

    def __init__(self, home: Path) -> None:
        self.talker = HibariTalker(StageSettings(home=home))
        self.voicebox = HibariVoiceBox(StageSettings(home=home))
        self.talker.load()
        self.voicebox.load()

    def frames(self, text: str | Iterable[str], start: Start) -> list[Output]:
        """The Talker's outputs."""
        deltas = [text] if isinstance(text, str) else list(text)
        inputs = [Input(Condition(text=delta)) for delta in deltas]
        return StageDriver(self.talker).run(start, [*inputs, Input(End())])

    def speak(self, text: str | Iterable[str], **start: object) -> Spoken:
        """A whole reply. start: fields of `Start`."""
        request = Start("r", Plan.TTS, **start)  # type: ignore[arg-type]
        frames = [Input(o.message, o.array) for o in self.frames(text, request)]
        return spoken(StageDriver(self.voicebox).run(request, frames))


def spoken(outputs: Iterable[Output]) -> Spoken:
    """Join the VoiceBox's outputs."""
    arrays = [o.array for o in outputs if isinstance(o.message, Audio) and o.array is not None]
    spans = [s for o in outputs if isinstance(o.message, Alignment) for s in o.message.spans]
    samples = np.concatenate([np.zeros(0, np.int16), *arrays]).astype(np.float32)
    samples /= 32768
    return Spoken(samples, tuple(spans), tuple(len(array) for array in arrays))


def median_f0_hz(samples: NDArray[np.float32]) -> float:
    """Median pitch of the voiced parts, by Praat's autocorrelation method."""
    sound = parselmouth.Sound(samples.astype(np.float64), OUTPUT_RATE_HZ)
    pitch = sound.to_pitch_ac(time_step=0.01, pitch_floor=60, pitch_ceiling=450)
    hz = pitch.selected_array["frequency"]
    return float(np.median(hz[hz > 0]))


class Listener:
    """The Transcriber, to check what is heard."""

    def __init__(self, home: Path) -> None:
        self._whisper = Whisper(StageSettings(threads=2, home=home))
        self._whisper.load()

    def hear(self, samples: NDArray[np.float32]) -> str:
        """What is said in 24 kHz samples."""
        heard = soxr.resample(samples, OUTPUT_RATE_HZ, 16_000)
        pcm = np.round(heard * 32767).clip(-32768, 32767).astype(np.int16)
        inputs = [Input(Audio(len(pcm)), pcm), Input(End())]
        outputs = StageDriver(self._whisper).run(Start("hear", Plan.TRANSCRIBE), inputs)
        return "".join(o.message.text for o in outputs if isinstance(o.message, TextDelta))
