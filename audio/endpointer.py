"""Where speech starts and stops, from the probabilities of a voice activity model.

Pure: it is told how probable speech is in each window and at which sample the window ends, and
answers in samples. Whoever knows more than the length of a silence can end a turn from outside.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from audio.formats import ms_to_samples

HYSTERESIS = 0.15
"""Speech goes on until its probability falls this far below the threshold."""

LOWEST_THRESHOLD = 0.01


@dataclass(frozen=True, slots=True)
class EndpointerSettings:
    """What counts as a turn.

    threshold: probability from which a window is speech, 0 to 1.
    prefix_padding_ms: audio kept from before the first window of speech.
    silence_duration_ms: silence that ends a turn; None leaves the decision to `end_turn`.
    min_speech_ms: speech needed to open a turn, in whole windows, rounded up: a click has less.
    Raises ValueError.
    """

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int | None = 500
    min_speech_ms: int = 64

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold must be between 0 and 1, got {self.threshold}")
        for name in ("prefix_padding_ms", "silence_duration_ms", "min_speech_ms"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} must not be negative, got {value}")

    @property
    def lower_threshold(self) -> float:
        """Probability below which a window is silence."""
        return min(self.threshold, max(self.threshold - HYSTERESIS, LOWEST_THRESHOLD))


class EndpointerState(enum.Enum):
    """SILENCE → ONSET → SPEECH ⇄ PAUSE → SILENCE; a turn is open in the last two of speech."""

    SILENCE = "silence"
    ONSET = "onset"  # speech, but not yet enough to open a turn
    SPEECH = "speech"
    PAUSE = "pause"  # silence inside a turn


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """A turn opened. audio_start_sample: first sample of its audio, prefix padding included."""

    audio_start_sample: int


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The turn ended. audio_end_sample: end of its audio, trailing silence included."""

    audio_end_sample: int


SpeechEvent = SpeechStarted | SpeechStopped


class NoTurnOpen(RuntimeError):
    """`end_turn` without a turn."""


@dataclass(slots=True)
class _Span:
    """One stretch of sound on its way to being a turn, and then the turn."""

    onset_sample: int  # start of its first window of speech
    speech_samples: int = 0
    undecided_samples: int = 0  # of windows between the two thresholds, before it opens
    audio_start_sample: int = 0  # once it is open
    silence_start_sample: int = 0  # in a pause


@dataclass(slots=True)
class Endpointer:
    """The state of one stream. All positions and lengths are in samples at `rate_hz`.

    window_samples: length of the windows that the model judges.
    """

    settings: EndpointerSettings = EndpointerSettings()
    rate_hz: int = 16_000
    window_samples: int = 512
    state: EndpointerState = field(default=EndpointerState.SILENCE, init=False)
    _floor_sample: int = field(default=0, init=False)  # no turn reaches back before it
    _end_sample: int = field(default=0, init=False)  # of the last window
    _span: _Span = field(default_factory=lambda: _Span(0), init=False)

    @property
    def in_turn(self) -> bool:
        """Whether a turn has started and not stopped."""
        return self.state in (EndpointerState.SPEECH, EndpointerState.PAUSE)

    @property
    def audio_start_sample(self) -> int | None:
        """Start of the open turn's audio, prefix padding included."""
        return self._span.audio_start_sample if self.in_turn else None

    @property
    def speech_samples(self) -> int:
        """Speech heard in the open turn so far, pauses left out; 0 without a turn."""
        return self._span.speech_samples if self.in_turn else 0

    @property
    def silence_samples(self) -> int:
        """Length of the pause that the open turn is in; 0 while there is speech or no turn."""
        if self.state is not EndpointerState.PAUSE:
            return 0
        return self._end_sample - self._span.silence_start_sample

    @property
    def speech_end_sample(self) -> int | None:
        """Where the speech of the open turn ended, as far as heard."""
        if self.state is EndpointerState.PAUSE:
            return self._span.silence_start_sample
        return self._end_sample if self.in_turn else None

    def reconfigure(self, settings: EndpointerSettings) -> None:
        """Use other settings from the next window on. An open turn stays open."""
        self.settings = settings

    def reset(self, at_sample: int | None = None) -> None:
        """Forget an open turn, without an event.

        at_sample: no later turn takes in audio from before it; by default, what was heard so far.
        """
        self.state = EndpointerState.SILENCE
        floor = self._end_sample if at_sample is None else at_sample
        self._floor_sample = max(self._floor_sample, floor)

    def end_turn(self, at_sample: int) -> SpeechStopped:
        """Stop the open turn at this sample, for a reason other than the length of its silence.

        Raises NoTurnOpen, and ValueError for a sample before the turn's start.
        """
        if not self.in_turn:
            raise NoTurnOpen(f"no turn is open (the endpointer is in {self.state.value})")
        if at_sample < self._span.audio_start_sample:
            raise ValueError(
                f"a turn that starts at sample {self._span.audio_start_sample} "
                f"cannot end at {at_sample}"
            )
        self.reset(at_sample)
        return SpeechStopped(at_sample)

    def push(self, probability: float, end_sample: int) -> SpeechEvent | None:
        """Take the probability of the window that ends at `end_sample`.

        Windows come in order; a gap between them counts as part of the later one's state. Raises
        ValueError, and changes nothing, for a window out of order or no probability.
        """
        if not 0 <= probability <= 1:
            raise ValueError(f"a probability is between 0 and 1, got {probability}")
        if end_sample <= self._end_sample:
            raise ValueError(f"window ends at {end_sample}, not after {self._end_sample}")
        self._end_sample = end_sample
        if self.in_turn:
            return self._push_in_turn(probability)
        return self._push_before_turn(probability)

    def _push_before_turn(self, probability: float) -> SpeechStarted | None:
        span = self._span
        if probability >= self.settings.threshold:
            if self.state is EndpointerState.SILENCE:
                self.state = EndpointerState.ONSET
                span = self._span = _Span(max(self._end_sample - self.window_samples, 0))
            span.speech_samples += self.window_samples
        elif self.state is EndpointerState.ONSET:
            span.undecided_samples += self.window_samples
        if self.state is not EndpointerState.ONSET:
            return None
        needed = ms_to_samples(self.settings.min_speech_ms, self.rate_hz)
        if probability < self.settings.lower_threshold or span.undecided_samples > needed:
            self.state = EndpointerState.SILENCE
            return None
        if probability < self.settings.threshold or span.speech_samples < needed:
            return None
        self.state = EndpointerState.SPEECH
        padding = ms_to_samples(self.settings.prefix_padding_ms, self.rate_hz)
        span.audio_start_sample = max(span.onset_sample - padding, self._floor_sample)
        return SpeechStarted(span.audio_start_sample)

    def _push_in_turn(self, probability: float) -> SpeechStopped | None:
        span = self._span
        speech = probability >= self.settings.threshold
        if self.state is EndpointerState.SPEECH:
            speech = probability >= self.settings.lower_threshold
        if speech:
            self.state = EndpointerState.SPEECH
            span.speech_samples += self.window_samples
            return None
        if self.state is EndpointerState.SPEECH:
            self.state = EndpointerState.PAUSE
            span.silence_start_sample = self._end_sample - self.window_samples
        limit = self.settings.silence_duration_ms
        if limit is not None and self.silence_samples >= ms_to_samples(limit, self.rate_hz):
            return self.end_turn(self._end_sample)
        return None
