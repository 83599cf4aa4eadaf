"""The Transcriber: Whisper through CTranslate2, on windows no longer than the utterance needs.

Whisper was trained on 30 s windows, and its encoder's cost grows with the window. Its encoder takes
shorter ones too; down to 15 s the text stays the same, below about 10 s it begins to repeat itself.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import tokenizers
from faster_whisper.feature_extractor import FeatureExtractor
from faster_whisper.tokenizer import Tokenizer
from numpy.typing import NDArray

from pipeline.messages import INPUT_RATE_HZ, End, Plan, Start, TextDelta, TokenLogprob, Usage
from pipeline.models.store import resolve
from pipeline.stage import Batch, Output, Stage, StageSettings, Work

__all__ = ["Whisper"]

MODEL = "whisper-tiny.en"
FRAMES_PER_S = 100
ATTENTION_FRAMES_PER_S = 50
FRAME_SAMPLES = INPUT_RATE_HZ // FRAMES_PER_S
SHORT_FRAMES = 1500
FULL_FRAMES = 3000
SPARE_FRAMES = 50
"""Silence left after the speech in a window: without it the last word is sometimes lost."""

LEAD_FRAMES = 10
"""Silence put before speech that begins with the first sample, as in a file: without it a short
first word ("The old clock") is often lost. Turns of a conversation begin with a moment of their
own, and are heard as they are."""

ABRUPT = 1 / 16
"""Speech begins with the first sample if the power of its first LEAD_FRAMES is above this share of
the mean: 12 dB below it. Recordings of people with 60 ms before the voice are 17 dB or more."""

MIN_SAMPLES = INPUT_RATE_HZ // 10
MAX_TOKENS = 224
PROMPT_TOKENS = 112
TOKENS_PER_S = 8
"""No one speaks faster; a longer text is a loop."""

MAX_COMPRESSION = 2.4
"""Text that zlib shrinks more than this is a loop; the threshold is Whisper's own."""

SENTENCE_ENDS = (".", "?", "!")

WARM_UP_S = (1.0, 20.0)


@dataclass(slots=True)
class _Utterance:
    """One request: what was said so far, and whether that is all."""

    start: Start
    pieces: list[NDArray[np.int16]] = field(default_factory=list)
    ended: bool = False


@dataclass(frozen=True, slots=True)
class _Heard:
    """One window's transcript."""

    text: str
    tokens: int
    avg_logprob: float
    no_speech_prob: float
    stop_prob: float
    ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    lead_frames: int = 0  # of silence that was put before it


class Whisper(Stage):
    """`Audio` inputs (int16, 16 kHz, mono), then `End`; `TextDelta`s and `End` out.

    End.meta: `seconds` of audio, `avg_logprob` (the lowest of its windows), `no_speech_prob` (the
    highest) and `stop_prob`, the probability with which the last word is followed by the end of a
    sentence: it tells a finished sentence from an unfinished one far better than the full stop
    that was written, or was not. If the request asks for `word_times`, `words` is a list of (word,
    start, end), in seconds from the start of the audio.

    options: `model`, a CTranslate2 Whisper folder; `beam_size` (1).
    """

    def __init__(self, settings: StageSettings) -> None:
        self._settings = settings
        self._beam_size = int(settings.options.get("beam_size", 1))
        self._utterances: dict[str, _Utterance] = {}
        self._model: Any = None
        self._features: Any = None
        self._tokens: Any = None
        self._stops: list[int] = []
        self._encoded: Any = None  # the window heard last

    def load(self) -> None:
        """Load the weights and run every window length once."""
        named = self._settings.options.get("model", MODEL)
        folder = Path(resolve(self._settings.home, named))
        self._model = ctranslate2.models.Whisper(
            str(folder),
            device=self._settings.device,
            compute_type="int8",
            intra_threads=self._settings.threads,
            inter_threads=1,
        )
        self._features = FeatureExtractor()
        self._tokens = Tokenizer(
            tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")),
            self._model.is_multilingual,
            task="transcribe",
            language="en",
        )
        self._stops = [self._tokens.tokenizer.token_to_id(stop) for stop in SENTENCE_ENDS]
        noise = np.random.default_rng(0)
        for seconds in WARM_UP_S:
            samples = noise.normal(0, 0.01, int(seconds * INPUT_RATE_HZ)).astype(np.float32)
            self._hear(samples, Start("warm-up", Plan.TRANSCRIBE))

    def open(self, start: Start) -> None:
        """Wait for the audio."""
        self._utterances[start.request_id] = _Utterance(start)

    def close(self, request_id: str) -> None:
        """Drop an utterance."""
        self._utterances.pop(request_id, None)

    def step(self, batch: Batch) -> list[Output]:
        """Transcribe what has ended, a window of each at a time."""
        return [output for work in batch for output in self._advance(work)]

    def _advance(self, work: Work) -> list[Output]:
        utterance = self._utterances[work.request_id]
        for given in work.inputs:
            if given.array is not None:
                # The array lies in a slot that goes back after this step.
                utterance.pieces.append(np.array(given.array, np.int16))
            utterance.ended |= isinstance(given.message, End)
        if not utterance.ended:
            return []
        return self._transcribe(work.request_id, utterance)

    def _transcribe(self, request_id: str, utterance: _Utterance) -> list[Output]:
        pieces = utterance.pieces or [np.zeros(0, np.int16)]
        samples = np.concatenate(pieces).astype(np.float32)
        samples /= 32768
        window = (FULL_FRAMES - LEAD_FRAMES - SPARE_FRAMES) * INPUT_RATE_HZ // FRAMES_PER_S
        outputs: list[Output] = []
        heard: list[_Heard] = []
        words: list[tuple[str, float, float]] = []
        for first in range(0, len(samples), window):
            part = samples[first : first + window]
            if len(part) < MIN_SAMPLES:
                continue
            heard.append(self._hear(part, utterance.start))
            if utterance.start.word_times:
                offset_s = first / INPUT_RATE_HZ
                words += self._words(heard[-1], len(part) / INPUT_RATE_HZ, offset_s)
            text = heard[-1].text if not first else " " + heard[-1].text
            if text.strip():
                told = TextDelta(text, logprobs=heard[-1].logprobs)
                outputs.append(Output(request_id, told))
        meta: dict[str, Any] = {
            "seconds": len(samples) / INPUT_RATE_HZ,
            "avg_logprob": min((h.avg_logprob for h in heard), default=0.0),
            "stop_prob": heard[-1].stop_prob if heard else 0.0,
            "no_speech_prob": max((h.no_speech_prob for h in heard), default=1.0),
        }
        if utterance.start.word_times:
            meta["words"] = words
        usage = Usage(output_tokens=sum(h.tokens for h in heard))
        return [*outputs, Output(request_id, End(usage=usage, meta=meta))]

    def _hear(self, samples: NDArray[np.float32], start: Start) -> _Heard:
        """One window: float32 within -1 to 1, at most 30 s."""
        seconds = len(samples) / INPUT_RATE_HZ
        lead = LEAD_FRAMES if _begins_abruptly(samples) else 0
        needed = lead + int(seconds * FRAMES_PER_S) + SPARE_FRAMES
        frames = SHORT_FRAMES if needed <= SHORT_FRAMES else FULL_FRAMES
        samples = np.pad(samples, (lead * FRAME_SAMPLES, 0))
        features = self._features(samples, padding=frames * FRAME_SAMPLES - len(samples))
        window = np.ascontiguousarray(features[None, :, :frames], np.float32)
        encoded = self._encoded = self._model.encode(ctranslate2.StorageView.from_array(window))
        limit = min(MAX_TOKENS, 10 + int(seconds * TOKENS_PER_S))
        heard = self._decode(encoded, start, limit)
        if _is_loop(heard.text):
            heard = self._decode(encoded, start, limit, no_repeat_ngram_size=3)
        return replace(heard, lead_frames=lead)

    def _decode(self, encoded: Any, start: Start, limit: int, **options: Any) -> _Heard:
        prompt = self._prompt(start)
        result = self._model.generate(
            encoded,
            [prompt],
            beam_size=self._beam_size,
            max_length=len(prompt) + limit,
            return_scores=True,
            return_no_speech_prob=True,
            return_logits_vocab=True,
            suppress_blank=True,
            suppress_tokens=[-1],
            **options,
        )[0]
        tokens = [token for token in result.sequences_ids[0] if token < self._tokens.eot]
        logprob = result.scores[0] * len(tokens) / (len(tokens) + 1)
        text = self._tokens.decode(tokens).strip()
        stop_prob = self._stop_prob(tokens, result.logits[0])
        no_speech = float(result.no_speech_prob)
        told = self._logprobs(tokens, result.logits[0]) if start.token_logprobs else ()
        return _Heard(text, len(tokens), float(logprob), no_speech, stop_prob, tuple(tokens), told)

    def _logprobs(self, tokens: list[int], logits: list[Any]) -> tuple[TokenLogprob, ...]:
        """Of each token that was written. logits: of each step, before any were suppressed."""
        found = []
        for token, step in zip(tokens, logits, strict=False):
            scores = np.array(step, np.float32).reshape(-1)
            most = float(scores.max())
            logprob = float(scores[token]) - most - float(np.log(np.exp(scores - most).sum()))
            found.append(TokenLogprob(self._tokens.decode([token]), logprob))
        return tuple(found)

    def _stop_prob(self, tokens: list[int], logits: list[Any]) -> float:
        """How probable a sentence's end was after the last word. logits: of each step."""
        step = len(tokens) - 1 if tokens and tokens[-1] in self._stops else len(tokens)
        if step >= len(logits):  # cut off by the limit
            return 0.0
        scores = np.array(logits[step], np.float32).reshape(-1)
        weights = np.exp(scores - scores.max())
        return float(weights[self._stops].sum() / weights.sum())

    def _words(
        self, heard: _Heard, seconds: float, offset_s: float
    ) -> list[tuple[str, float, float]]:
        """When each word of the window just heard was said, by the decoder's attention."""
        ids, lead = heard.ids, heard.lead_frames
        if not ids:
            return []
        frames = min(lead + int(seconds * FRAMES_PER_S), FULL_FRAMES)
        found = self._model.align(
            self._encoded, self._tokens.sot_sequence, [list(ids)], frames, median_filter_width=7
        )[0]
        pairs = np.array(found.alignments)
        # The first frame at which each token is attended to; one more for the end of the text.
        begins = pairs[np.diff(pairs[:, 0], prepend=-1) > 0, 1] / ATTENTION_FRAMES_PER_S
        begins = np.maximum(begins - lead / FRAMES_PER_S, 0)
        words, tokens = self._tokens.split_to_word_tokens([*ids, self._tokens.eot])
        edges = np.cumsum([0, *(len(one) for one in tokens[:-1])])
        times = begins[np.minimum(edges, len(begins) - 1)] + offset_s
        timed: list[tuple[str, float, float]] = []
        for at, word in enumerate(words[:-1]):
            if timed and not any(character.isalnum() for character in word):
                timed[-1] = (timed[-1][0] + word, *timed[-1][1:])  # punctuation takes no time
            else:
                timed.append((word.strip(), float(times[at]), float(times[at + 1])))
        return timed

    def _prompt(self, start: Start) -> list[int]:
        before = []
        if start.prompt.strip():
            hint = self._tokens.encode(" " + start.prompt.strip())[-PROMPT_TOKENS:]
            before = [self._tokens.sot_prev, *hint]
        return [*before, *self._tokens.sot_sequence, self._tokens.no_timestamps]


def _begins_abruptly(samples: NDArray[np.float32]) -> bool:
    power = np.square(samples)
    return float(power[: LEAD_FRAMES * FRAME_SAMPLES].mean()) > ABRUPT * float(power.mean())


def _is_loop(text: str) -> bool:
    data = text.encode()
    return len(data) > 40 and len(data) / len(zlib.compress(data)) > MAX_COMPRESSION
