"""The configuration of a transcription session: one that writes down, and never answers."""

from __future__ import annotations

from typing import Literal

from realtime.protocol.config import AudioInput, ServerVad
from realtime.protocol.wire import Wire


class TranscriptionAudio(Wire):
    """Only what is heard: nothing is ever spoken."""

    input: AudioInput = AudioInput(turn_detection=ServerVad())


class TranscriptionSession(Wire):
    """What a client can set."""

    type: Literal["transcription"] = "transcription"
    audio: TranscriptionAudio = TranscriptionAudio()
    include: tuple[Literal["item.input_audio_transcription.logprobs"], ...] | None = None


class EffectiveTranscriptionSession(TranscriptionSession):
    """The session as the client sees it."""

    object: Literal["realtime.transcription_session"] = "realtime.transcription_session"
    id: str
    expires_at: int
