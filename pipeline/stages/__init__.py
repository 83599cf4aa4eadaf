"""The stage registry: kind → class, imported only inside the worker that runs it.

The server process reads this table to size pools and must never import a model runtime, so an
entry names its class by path.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from pipeline.abilities import Ability
from pipeline.config import StageConfig
from pipeline.models.catalog import MODELS
from pipeline.stage import Stage, StageSettings

__all__ = ["STAGES", "StageKind", "create_stage", "models_of"]


@dataclass(frozen=True, slots=True)
class StageKind:
    """What the server must know of a stage without importing it.

    path: `module:class`, imported in the worker.
    slot_nbytes: size of one slot of the stage's output pool; 0 when its payloads are always inline.
    model: the model of the store that it loads unless its options name another.
    hears: whether this Thinker takes recordings, so that nothing need be written down for it.
    sees: whether this Thinker, which also hears, takes pictures.
    lacks: what it cannot do, of what requests may ask for.
    """

    path: str
    slot_nbytes: int = 0
    model: str = ""
    hears: bool = False
    sees: bool = False
    lacks: frozenset[Ability] = frozenset()


OMNI_THINKER_LACKS = frozenset({Ability.CALLS, Ability.SHAPES})
OMNI_TALKER_LACKS = frozenset({Ability.READS, Ability.PACES})
"""It speaks what its own Thinker says, and has no notion of pace."""

SECOND_NBYTES = (24_000 + 9_600) * 2
"""A second of 24 kHz int16, and what a watermark may have held back of the one before."""

STAGES: dict[str, StageKind] = {
    "silero": StageKind("pipeline.stages.silero:Silero", model="silero-vad"),
    "smart_turn": StageKind("pipeline.stages.smart_turn:SmartTurn", model="smart-turn"),
    "whisper": StageKind("pipeline.stages.whisper:Whisper", model="whisper-tiny.en"),
    "llama": StageKind("pipeline.stages.llama:Llama", model="smollm2-135m-instruct"),
    # 80 frames of 5 x 601 + 1 float32 values are one second of speech.
    "hibari_talker": StageKind(
        "pipeline.stages.hibari_talker:HibariTalker", slot_nbytes=80 * 3006 * 4
    ),
    "hibari_voicebox": StageKind(
        "pipeline.stages.hibari_voicebox:HibariVoiceBox", slot_nbytes=SECOND_NBYTES
    ),
    # Prompts are long, and go in parts; a row is 8 KiB or so.
    "qwen2_5_omni_thinker": StageKind(
        "pipeline.stages.qwen2_5_omni_thinker:Qwen25OmniThinker",
        slot_nbytes=1 << 20,
        hears=True,
        sees=True,
        lacks=OMNI_THINKER_LACKS,
    ),
    "qwen2_5_omni_talker": StageKind(
        "pipeline.stages.qwen2_5_omni_talker:Qwen25OmniTalker",
        slot_nbytes=1 << 16,
        lacks=OMNI_TALKER_LACKS,
    ),
    "qwen2_5_omni_voicebox": StageKind(
        "pipeline.stages.qwen2_5_omni_voicebox:Qwen25OmniVoiceBox", slot_nbytes=1 << 18
    ),
    "qwen3_omni_thinker": StageKind(
        "pipeline.stages.qwen3_omni_thinker:Qwen3OmniThinker",
        slot_nbytes=1 << 20,
        hears=True,
        sees=True,
        lacks=OMNI_THINKER_LACKS,
    ),
    "qwen3_omni_talker": StageKind(
        "pipeline.stages.qwen3_omni_talker:Qwen3OmniTalker",
        slot_nbytes=1 << 16,
        lacks=OMNI_TALKER_LACKS,
    ),
    "qwen3_omni_voicebox": StageKind(
        "pipeline.stages.qwen3_omni_voicebox:Qwen3OmniVoiceBox", slot_nbytes=SECOND_NBYTES
    ),
    "scripted_ears": StageKind("pipeline.stages.scripted:ScriptedEars"),
    "scripted_turn_detector": StageKind("pipeline.stages.scripted:ScriptedTurnDetector"),
    "scripted_transcriber": StageKind("pipeline.stages.scripted:ScriptedTranscriber"),
    "scripted_thinker": StageKind("pipeline.stages.scripted:ScriptedThinker"),
    "scripted_talker": StageKind("pipeline.stages.scripted:ScriptedTalker", slot_nbytes=64 * 1024),
    "scripted_voicebox": StageKind(
        "pipeline.stages.scripted:ScriptedVoiceBox", slot_nbytes=SECOND_NBYTES
    ),
}


def models_of(stage: StageConfig) -> list[str]:
    """Models of the store that the stage needs; none if its options name a file instead."""
    kind = STAGES.get(stage.kind)
    if kind is None or not kind.model:
        return []
    named = str(stage.options.get("model", kind.model))
    return [named] if named in MODELS else []


def create_stage(kind: str, settings: StageSettings) -> Stage:
    """Import and construct the stage. Raises KeyError for an unknown kind."""
    module, _, name = STAGES[kind].path.partition(":")
    stage: Stage = getattr(importlib.import_module(module), name)(settings)
    return stage
