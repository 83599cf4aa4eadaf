"""Transcription sessions, as far as they differ from those that answer.

Inside, a transcription session is a session whose turns are never answered: its configuration has
`create_response` and `interrupt_response` off, and transcription on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from realtime.errors import ClientError
from realtime.protocol.config import (
    Audio,
    AudioInput,
    ServerVad,
    SessionConfig,
    Transcription,
)
from realtime.protocol.parsing import parse_config
from realtime.protocol.transcription import (
    EffectiveTranscriptionSession,
    TranscriptionAudio,
    TranscriptionSession,
)
from realtime.session_update import merge, require_type


def without_answers(
    config: SessionConfig, wanted: TranscriptionSession | None = None
) -> SessionConfig:
    """The configuration inside a transcription session; `config` gives what it has no say in."""
    wanted = wanted or TranscriptionSession()
    given = wanted.audio.input
    detection = given.turn_detection
    if detection is not None:
        # Nothing is answered, so not a silence either.
        silent: dict[str, bool | None] = {"create_response": False, "interrupt_response": False}
        if isinstance(detection, ServerVad):
            silent["idle_timeout_ms"] = None
        detection = detection.model_copy(update=silent)
    heard = given.model_copy(
        update={
            "turn_detection": detection,
            # There would be no point in a session without.
            "transcription": given.transcription or Transcription(),
        }
    )
    audio = Audio(input=heard, output=config.audio.output)
    return config.model_copy(update={"audio": audio, "include": wanted.include})


def updated_transcription(
    current: SessionConfig, update: Mapping[str, Any], *, transcribes: bool
) -> SessionConfig:
    """The session after an update of type `transcription`. Raises ClientError.

    transcribes: whether it has been one already; else it becomes one, with the defaults of one.
    """
    require_type(update)
    old = current.audio.input if transcribes else TranscriptionSession().audio.input
    shown = TranscriptionSession(audio=TranscriptionAudio(input=old), include=current.include)
    merged = merge(shown.model_dump(mode="json"), update)
    return without_answers(current, parse_config(TranscriptionSession, merged, "session"))


def effective_transcription(
    config: SessionConfig, session_id: str, expires_at: int
) -> EffectiveTranscriptionSession:
    """The session as the client sees it."""
    heard: AudioInput = config.audio.input
    return EffectiveTranscriptionSession(
        id=session_id,
        expires_at=expires_at,
        audio=TranscriptionAudio(input=heard),
        include=config.include,
    )


def wrong_kind(*, transcribes: bool) -> ClientError:
    """The refusal of an update for the other kind of session."""
    asked, is_one = ("realtime", "transcription") if transcribes else ("transcription", "realtime")
    return ClientError(
        "invalid_parameter",
        f"Passing a {asked} session update event to a {is_one} session is not allowed"
        + ("." if transcribes else " once it has items or responses."),
        "session.type",
    )


def no_responses(kind: str) -> ClientError:
    """The refusal of what a transcription session does not do."""
    message = f"'{kind}' is not part of a transcription session; open a session without 'intent'."
    return ClientError("invalid_value", message, "type")
