"""Where the user's turns begin and end, from what the ears report."""

from __future__ import annotations

from audio.endpointer import Endpointer, EndpointerSettings, SpeechEvent
from audio.formats import ms_to_samples, samples_to_ms
from pipeline.messages import INPUT_RATE_HZ, Speech
from realtime.protocol.config import SemanticVad, ServerVad

GUESS_SILENCE_MS = 96
"""A pause this long may be the end of the turn: work begins, on the guess that it is."""

SLACK_MS = 1000
"""Audio kept beyond the prefix padding: a turn is known only some windows after its onset."""


class Turns:
    """Turn detection of one session, while it is on.

    Under `server_vad` the length of a silence ends a turn, under `semantic_vad` whoever asks
    `turn_end.turn_has_ended`.
    """

    def __init__(self, detection: ServerVad | SemanticVad) -> None:
        self.detection = detection
        self._endpointer = Endpointer(_settings(detection), rate_hz=INPUT_RATE_HZ)
        self._heard = 0  # windows up to here are judged, or no longer of interest

    @property
    def open(self) -> bool:
        """Whether the user is in a turn."""
        return self._endpointer.in_turn

    @property
    def start_sample(self) -> int | None:
        """Where the audio of the open turn begins."""
        return self._endpointer.audio_start_sample

    @property
    def silence_ms(self) -> int:
        """Length of the pause that the open turn is in; 0 while there is speech or no turn."""
        return samples_to_ms(self._endpointer.silence_samples, INPUT_RATE_HZ)

    @property
    def speech_ms(self) -> int:
        """Speech in the open turn, pauses left out."""
        return samples_to_ms(self._endpointer.speech_samples, INPUT_RATE_HZ)

    @property
    def paused(self) -> bool:
        """Whether the open turn is in a pause long enough to guess that it is over."""
        return self.silence_ms >= GUESS_SILENCE_MS

    @property
    def speaking(self) -> bool:
        """Whether the last window of the open turn was speech."""
        return self.open and self._endpointer.silence_samples == 0

    @property
    def needed_from(self) -> int:
        """No turn, open or to come, has audio from before this position."""
        if (start := self._endpointer.audio_start_sample) is not None:
            return start
        padding_ms = self._endpointer.settings.prefix_padding_ms + SLACK_MS
        return max(self._heard - ms_to_samples(padding_ms, INPUT_RATE_HZ), 0)

    def reconfigure(self, detection: ServerVad | SemanticVad) -> None:
        """Use other settings from now on; an open turn stays open."""
        self.detection = detection
        self._endpointer.reconfigure(_settings(detection))

    def reset(self, at_sample: int) -> None:
        """Forget an open turn, and what the ears may still report of the time before."""
        self._endpointer.reset(at_sample)
        self._heard = max(self._heard, at_sample)

    def hear(self, speech: Speech) -> SpeechEvent | None:
        """Take the next window. Late news is ignored."""
        if speech.end_sample <= self._heard:
            return None
        self._heard = speech.end_sample
        return self._endpointer.push(speech.probability, speech.end_sample)

    def end(self) -> int:
        """The open turn ends with the last window heard; returns where. Raises NoTurnOpen."""
        return self._endpointer.end_turn(self._heard).audio_end_sample


def _settings(detection: ServerVad | SemanticVad) -> EndpointerSettings:
    if isinstance(detection, SemanticVad):
        return EndpointerSettings(silence_duration_ms=None)
    return EndpointerSettings(
        threshold=detection.threshold,
        prefix_padding_ms=detection.prefix_padding_ms,
        silence_duration_ms=detection.silence_duration_ms,
    )
