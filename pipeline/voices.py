"""The voices: what the VoiceBox changes in the network's own voice to make ten people of it.

The network gives pitch and a spectral envelope separately, so each voice has its own F0, its own
range of intonation and its own length of vocal tract.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ALIASES", "DEFAULT_VOICE", "NETWORK_F0_HZ", "VOICES", "Voice", "resolve_voice"]

NETWORK_F0_HZ = 200.0
"""Median F0 of the network's own voice over ordinary sentences."""

DEFAULT_VOICE = "marin"


@dataclass(frozen=True, slots=True)
class Voice:
    """One speaker.

    f0_hz: median pitch of what it says.
    pitch_range: exponent on the deviation from the median; below 1 is a calmer voice.
    formant: factor on all formant frequencies; below 1 is a longer vocal tract.
    tilt_db: added per octave above 1 kHz to the voiced part; below 0 is darker.
    breath_db: added to the unvoiced part while the voice is on.
    gain_db: evens out the loudness of the voices.
    """

    name: str
    description: str
    f0_hz: float
    pitch_range: float = 1.0
    formant: float = 1.0
    tilt_db: float = 0.0
    breath_db: float = 0.0
    gain_db: float = 0.0


VOICES: dict[str, Voice] = {
    voice.name: voice
    for voice in (
        Voice("marin", "warm and clear, the network's own voice", 198.0),
        Voice("alloy", "low and even, between registers", 160.0, 0.85, 0.97, gain_db=1.0),
        Voice("ash", "male, calm and close", 112.0, 0.85, 0.87, 0.5),
        Voice("ballad", "male, light and lively", 148.0, 1.15, 0.91, gain_db=0.8),
        Voice("cedar", "male, deep and steady", 98.0, 0.8, 0.85, 0.5, gain_db=-0.4),
        Voice("coral", "bright and friendly", 222.0, 1.05, 1.04, gain_db=2.1),
        Voice("echo", "male, plain and clear", 124.0, 0.9, 0.89, 0.5, gain_db=0.4),
        Voice("sage", "soft and low", 180.0, 0.9, 0.98, -1.0, gain_db=1.0),
        Voice("shimmer", "light and high", 244.0, 1.0, 1.07, gain_db=2.6),
        Voice("verse", "male, expressive", 132.0, 1.1, 0.86, 1.6, gain_db=0.9),
    )
}

ALIASES: dict[str, str] = {"fable": "ballad", "nova": "coral", "onyx": "cedar"}


def resolve_voice(name: str) -> Voice:
    """The voice of this name, in any case. An unknown name gets the default voice.

    Clients send the names of other vendors' voices; a reply in another voice is of more use to
    them than an error.
    """
    key = name.strip().lower()
    return VOICES[ALIASES.get(key, key)] if ALIASES.get(key, key) in VOICES else VOICES["marin"]
