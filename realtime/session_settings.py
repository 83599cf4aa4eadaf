"""What the server decides for a session before its client has said anything."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.abilities import Ability
from realtime.interruption import BACKCHANNELS
from realtime.outgoing import NewId
from realtime.picture_limits import PictureLimits
from realtime.protocol.config import SessionConfig


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Of one session.

    new_id: makes ids from a prefix. config: the session before the client's first update.
    voices: names that the engine has; others are spoken by `default_voice`. Empty: all of them.
    max_item_audio_bytes, max_kept_audio_bytes: of the audio that items can be retrieved with.
    transcribes: whether it is a transcription session.
    backchannels: what a listener says without meaning to interrupt.
    refuse_overflow: answer audio beyond max_buffer_s with an error, instead of dropping the oldest.
    max_heard_s: of recordings in a prompt, for a Thinker that hears; 0 for one that does not.
    sight: of pictures in a prompt, for a Thinker that sees; it refuses them otherwise.
    lacks: what the models cannot do, and a client is refused.
    max_turn_s: a turn that nothing has ended for so long is taken at its next pause.
    """

    session_id: str
    new_id: NewId
    config: SessionConfig = SessionConfig()
    expires_at: int = 0
    transcribes: bool = False
    voices: frozenset[str] = frozenset()
    default_voice: str = "marin"
    backchannels: tuple[str, ...] = BACKCHANNELS
    max_buffer_s: float = 600.0
    refuse_overflow: bool = False
    max_item_audio_bytes: int = 480_000
    max_kept_audio_bytes: int = 4 * 1024 * 1024
    max_parallel_responses: int = 8
    max_heard_s: float = 0.0
    sight: PictureLimits = PictureLimits()
    max_turn_s: float = 60.0
    lacks: frozenset[Ability] = frozenset()
