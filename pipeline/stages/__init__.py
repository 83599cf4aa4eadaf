"""The stage registry: kind → class, imported only inside the worker that runs it.

The server process reads this table to size pools and must never import a model runtime, so an
entry names its class by path.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from pipeline.stage import Stage, StageSettings

__all__ = ["STAGES", "StageKind", "create_stage"]


@dataclass(frozen=True, slots=True)
class StageKind:
    """What the server must know of a stage without importing it.

    path: `module:class`, imported in the worker.
    slot_nbytes: size of one slot of the stage's output pool; 0 when its payloads are always inline.
    hears: the stage takes audio items itself, so no transcript is needed before it starts.
    """

    path: str
    slot_nbytes: int = 0
    hears: bool = False


STAGES: dict[str, StageKind] = {
    "silero": StageKind("pipeline.stages.silero:Silero"),
    "whisper": StageKind("pipeline.stages.whisper:Whisper"),
    "llama": StageKind("pipeline.stages.llama:Llama"),
    # 80 frames of 5 x 601 + 1 float32 values are one second of speech.
    "hibari_talker": StageKind(
        "pipeline.stages.hibari_talker:HibariTalker", slot_nbytes=80 * 3006 * 4
    ),
    # A second of 24 kHz int16.
    "hibari_voicebox": StageKind(
        "pipeline.stages.hibari_voicebox:HibariVoiceBox", slot_nbytes=24_000 * 2
    ),
    "scripted_ears": StageKind("pipeline.stages.scripted:ScriptedEars"),
    "scripted_transcriber": StageKind("pipeline.stages.scripted:ScriptedTranscriber"),
    "scripted_thinker": StageKind("pipeline.stages.scripted:ScriptedThinker"),
    "scripted_talker": StageKind("pipeline.stages.scripted:ScriptedTalker", slot_nbytes=64 * 1024),
    "scripted_voicebox": StageKind(
        "pipeline.stages.scripted:ScriptedVoiceBox", slot_nbytes=24_000 * 2
    ),
}


def create_stage(kind: str, settings: StageSettings) -> Stage:
    """Import and construct the stage. Raises KeyError for an unknown kind."""
    module, _, name = STAGES[kind].path.partition(":")
    stage: Stage = getattr(importlib.import_module(module), name)(settings)
    return stage
