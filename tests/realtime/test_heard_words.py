"""Somebody counts to twenty and is interrupted: the model remembers the words that were heard.

With the real Talker and VoiceBox. What was heard is what Whisper makes of the audio that was sent,
up to the cut.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray
from stage_driver import StageDriver
from test_driver import SERVER_VAD, WatchedEngine, Wire, driving, silence, started, voice

from pipeline.config import StageConfig, StagesConfig
from pipeline.messages import Audio, End, Plan, Start, TextDelta
from pipeline.stage import Input, StageSettings
from pipeline.stages.whisper import Whisper
from realtime.config import Config

pytestmark = [pytest.mark.models, pytest.mark.timeout(120)]

NUMBERS = (
    "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
).split()
INTERRUPTED_AT_MS = 4_000
TRUNCATED_AT_MS = 2_500
LEAD_MS = 2_000
RATE_HZ = 24_000


@pytest.fixture
def counting(scripted: Config, models_home: Path) -> Config:
    """Everything is scripted but the voice."""
    stages = scripted.stages.model_dump()
    spoken = StagesConfig()
    stages["thinker"]["options"] = {"text": ", ".join(NUMBERS) + "."}
    for name in ("talker", "voicebox"):
        stages[name] = getattr(spoken, name).model_dump() | {"placement": "thread"}
    made = {name: StageConfig(**stage) for name, stage in stages.items()}
    return scripted.model_copy(
        update={
            "home": models_home,
            "stages": StagesConfig(**made),
            "pacing_lead_ms": LEAD_MS,
        }
    )


@pytest.mark.parametrize("truncates", [True, False], ids=["told", "reckoned"])
async def test_the_next_prompt_holds_only_the_words_that_were_heard(
    counting: Config, models_home: Path, truncates: bool
) -> None:
    engine = WatchedEngine(counting)
    async with started(counting, engine) as service, driving(service) as wire:
        await wire.update(audio=SERVER_VAD)
        await wire.ask("Count to twenty.")
        first = await wire.wait_for("response.output_audio.delta")
        # Audio is sent two seconds ahead of its playback.
        while len(_sound(wire)) < (INTERRUPTED_AT_MS + LEAD_MS) * RATE_HZ // 1000:
            await wire.wait_for("response.output_audio.delta")
        await wire.append(voice(0.6))
        await wire.wait_for("input_audio_buffer.speech_started")
        assert (await wire.wait_for("response.done"))["response"]["status"] == "cancelled"
        sent = _sound(wire)
        cut_ms = INTERRUPTED_AT_MS
        if truncates:
            cut_ms = TRUNCATED_AT_MS
            await wire.send(
                "conversation.item.truncate",
                item_id=first["item_id"],
                content_index=0,
                audio_end_ms=cut_ms,
            )
        await wire.append(silence(1.0))
        await wire.wait_for("response.created")
        await wire.wait_for("response.output_item.added")

    assert wire.types().count("conversation.item.truncated") == truncates
    (said,) = [item.text for item in engine.replies[-1].items if item.role == "assistant"]
    remembered = [word.strip(",.") for word in said.split()]
    assert remembered == NUMBERS[: len(remembered)]
    heard = _counted(_understood(sent[: cut_ms * RATE_HZ // 1000], models_home))
    # The word that was cut in two may be understood, but it was not heard whole.
    assert heard - 1 <= len(remembered) <= heard
    assert 3 <= len(remembered) <= 15


def _sound(wire: Wire) -> NDArray[np.int16]:
    deltas = [event["delta"] for event in wire.log if event["type"].endswith("output_audio.delta")]
    return np.frombuffer(b"".join(base64.b64decode(delta) for delta in deltas), "<i2")


def _understood(samples: NDArray[np.int16], home: Path) -> str:
    stage = Whisper(StageSettings(threads=2, home=home))
    stage.load()
    heard: Any = soxr.resample(samples, RATE_HZ, 16_000)
    inputs = [Input(Audio(len(heard)), heard), Input(End())]
    outputs = StageDriver(stage).run(Start("heard", Plan.TRANSCRIBE), inputs)
    return "".join(o.message.text for o in outputs if isinstance(o.message, TextDelta))


def _counted(text: str) -> int:
    """How far the text counts, in words or in digits."""
    words = text.lower().replace(",", " ").replace(".", " ").replace("-", " ").split()
    known = {number.lower(): place for place, number in enumerate(NUMBERS, 1)}
    known |= {str(place): place for place in known.values()}
    return max((known[word] for word in words if word in known), default=0)
