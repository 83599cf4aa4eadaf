"""Stages with set text, tone and timing: the whole server without a model.

For tests, for demonstrations of the protocol, and for measuring what the server itself costs.
Each takes its script from `options`; all delays are zero unless set.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from pipeline.messages import (
    INPUT_RATE_HZ,
    OUTPUT_RATE_HZ,
    Alignment,
    Audio,
    Condition,
    End,
    Frames,
    Plan,
    Reset,
    Speech,
    Start,
    TextDelta,
    ToolCallDelta,
    TurnEnd,
    Usage,
)
from pipeline.stage import Array, Batch, Output, Stage, StageError, StageSettings, Work

WINDOW_SAMPLES = 512
FRAME_SAMPLES = 300  # 12.5 ms at 24 kHz
FRAME_MS = 12.5
SPEECH_DBFS = -45.0


class Timers:
    """Calls back at set times from one thread of its own, which ends when nothing is due."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, str]] = []
        self._count = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def call_at(self, at_s: float, request_id: str, stage: Stage) -> None:
        """Wake the request's stage at a time of the monotonic clock."""
        with self._changed:
            self._count += 1
            heapq.heappush(self._due, (at_s, self._count, request_id))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, args=(stage,), daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self, stage: Stage) -> None:
        with self._changed:
            while self._due:
                wait_s = self._due[0][0] - time.monotonic()
                if wait_s > 0:
                    self._changed.wait(wait_s)
                else:
                    stage.wake(heapq.heappop(self._due)[2])
            self._thread = None


class ScriptedEars(Stage):
    """Speech is what is louder than `speech_dbfs` (default -45)."""

    batched = True

    def __init__(self, settings: StageSettings) -> None:
        self._floor = 10 ** (settings.options.get("speech_dbfs", SPEECH_DBFS) / 20) * 32768
        self._heard: dict[str, tuple[int, Array]] = {}

    def load(self) -> None:
        """Nothing to load."""

    def open(self, start: Start) -> None:
        """Begin at sample 0."""
        self._heard[start.request_id] = (0, np.zeros(0, np.int16))

    def step(self, batch: Batch) -> list[Output]:
        """One Speech per whole window."""
        outputs: list[Output] = []
        for work in batch:
            for given in work.inputs:
                if isinstance(given.message, Audio) and given.array is not None:
                    outputs += self._hear(work.request_id, given.array)
                elif isinstance(given.message, Reset):
                    end, rest = self._heard[work.request_id]
                    self._heard[work.request_id] = (end + len(rest), rest[:0])
        return outputs

    def _hear(self, request_id: str, samples: Array) -> list[Output]:
        end, rest = self._heard[request_id]
        rest = np.concatenate([rest, samples])
        outputs = []
        while len(rest) >= WINDOW_SAMPLES:
            window, rest = rest[:WINDOW_SAMPLES].astype(np.float64), rest[WINDOW_SAMPLES:]
            end += WINDOW_SAMPLES
            loud = float(np.sqrt(np.mean(window * window))) > self._floor
            outputs.append(Output(request_id, Speech(0.99 if loud else 0.01, end)))
        self._heard[request_id] = (end, rest)
        return outputs

    def close(self, request_id: str) -> None:
        """Forget the session."""
        self._heard.pop(request_id, None)


class ScriptedTurnDetector(Stage):
    """Every utterance sounds finished with the probability `finished` (0.9)."""

    def __init__(self, settings: StageSettings) -> None:
        self._finished = float(settings.options.get("finished", 0.9))

    def load(self) -> None:
        """Nothing to load."""

    def open(self, start: Start) -> None:
        """Wait for the audio."""

    def step(self, batch: Batch) -> list[Output]:
        """The set score, at the end of each utterance."""
        return [
            Output(work.request_id, message)
            for work in batch
            if any(isinstance(given.message, End) for given in work.inputs)
            for message in (TurnEnd(self._finished), End())
        ]

    def close(self, request_id: str) -> None:
        """Nothing is kept."""


class ScriptedTranscriber(Stage):
    """Hears `text`, whatever is said; with `texts`, the next one each time.

    With `texts_by_ms`, a map from milliseconds: the one of the greatest length that is not longer
    than the sound in the utterance. Utterances quieter than the ears' floor give an empty
    transcript. `delay_ms` is how long it takes.
    """

    def __init__(self, settings: StageSettings) -> None:
        options = settings.options
        self._texts: deque[str] = deque(
            options.get("texts") or [options.get("text", "Hello there.")]
        )
        by_ms: dict[str, str] = options.get("texts_by_ms", {})
        self._by_ms = sorted((int(ms), text) for ms, text in by_ms.items())
        self._delay_s = options.get("delay_ms", 0) / 1000
        self._timers = Timers()
        self._heard: dict[str, tuple[int, int]] = {}  # samples with sound, and all
        self._ready_s: dict[str, float] = {}

    def load(self) -> None:
        """Nothing to load."""

    def open(self, start: Start) -> None:
        """Wait for audio."""
        self._heard[start.request_id] = (0, 0)

    def step(self, batch: Batch) -> list[Output]:
        """The transcript, once the utterance is there and the delay is over."""
        return [output for work in batch for output in self._advance(work)]

    def _advance(self, work: Work) -> list[Output]:
        for given in work.inputs:
            loud, samples = self._heard[work.request_id]
            if given.array is not None and len(given.array):
                loud += int(np.count_nonzero(np.abs(given.array.astype(np.int32)) > 100))
                self._heard[work.request_id] = (loud, samples + len(given.array))
            if isinstance(given.message, End):
                self._ready_s[work.request_id] = time.monotonic() + self._delay_s
        ready_s = self._ready_s.get(work.request_id)
        if ready_s is None:
            return []
        if time.monotonic() < ready_s:
            self._timers.call_at(ready_s, work.request_id, self)
            return []
        loud, samples = self._heard[work.request_id]
        text = self._next_text(loud * 1000 // INPUT_RATE_HZ) if loud else ""
        end = End(meta={"seconds": samples / INPUT_RATE_HZ})
        return [Output(work.request_id, TextDelta(text)), Output(work.request_id, end)]

    def _next_text(self, loud_ms: int) -> str:
        if self._by_ms:
            return next((text for ms, text in reversed(self._by_ms) if ms <= loud_ms), "")
        self._texts.rotate(-1)
        return self._texts[-1]

    def close(self, request_id: str) -> None:
        """Forget the utterance."""
        self._heard.pop(request_id, None)
        self._ready_s.pop(request_id, None)


@dataclass(slots=True)
class _Reply:
    start: Start
    words: deque[str]
    next_s: float
    count: int = 0


class ScriptedThinker(Stage):
    """Says `text` word by word.

    first_ms, token_ms: time to the first word and between words. echo: repeat the user's last
    words instead. Two maps from a word in the last message: texts, to what is said then; faults,
    to what happens then (`raise`, `hang`, `exhaust`, which is out of memory, or `crash`, which ends
    the process). needs: a file without which it does not load. calls: a list of
    `{name, arguments}`, made instead where the request has tools and ends with the user's words;
    with a `word` in it, only where that is one of them.
    """

    def __init__(self, settings: StageSettings) -> None:
        options = settings.options
        self._text: str = options.get("text", "Hello. It is good to hear your voice.")
        self._echo: bool = options.get("echo", False)
        self._first_s = options.get("first_ms", 0) / 1000
        self._token_s = options.get("token_ms", 0) / 1000
        self._faults: dict[str, str] = options.get("faults", {})
        self._texts: dict[str, str] = options.get("texts", {})
        self._calls: list[dict[str, str]] = options.get("calls", [])
        self._needs: str | None = options.get("needs")
        self._timers = Timers()
        self._replies: dict[str, _Reply] = {}

    def load(self) -> None:
        """Nothing to load. Raises OSError without the file that is needed."""
        if self._needs is not None:
            os.stat(self._needs)

    def open(self, start: Start) -> None:
        """Prepare the words."""
        asked = start.items[-1].text if start.items else ""
        for word, fault in self._faults.items():
            if word in asked:
                _fault(fault, start.request_id)
        text = next((text for word, text in self._texts.items() if word in asked), self._text)
        words = (asked if self._echo else text).split(" ")
        words = [f" {word}" if i else word for i, word in enumerate(words)]
        limit = start.sampling.max_tokens
        self._replies[start.request_id] = _Reply(
            start, deque(words[:limit]), time.monotonic() + self._first_s
        )

    def step(self, batch: Batch) -> list[Output]:
        """The words that are due."""
        return [output for work in batch for output in self._advance(work.request_id)]

    def _advance(self, request_id: str) -> list[Output]:
        reply = self._replies[request_id]
        if calls := self._calls_for(reply.start):
            return self._call(reply.start, calls)
        outputs: list[Output] = []
        while reply.words and time.monotonic() >= reply.next_s:
            word = reply.words.popleft()
            outputs.append(Output(request_id, TextDelta(word)))
            if reply.start.plan is Plan.SPEECH:
                outputs.append(Output(request_id, Condition(text=word)))
            reply.count += 1
            reply.next_s += self._token_s
        if reply.words:
            self._timers.call_at(reply.next_s, request_id, self)
            return outputs
        tokens = sum(len(item.text.split()) for item in reply.start.items)
        cut = reply.start.sampling.max_tokens == reply.count
        usage = Usage(tokens, reply.count)
        outputs.append(Output(request_id, End("length" if cut else "stop", usage)))
        return outputs

    def _calls_for(self, start: Start) -> list[dict[str, str]]:
        wanted = bool(start.tools) and start.tool_choice != "none"
        if not wanted or start.items[-1].role != "user":
            return []
        return [call for call in self._calls if call.get("word", "") in start.items[-1].text]

    def _call(self, start: Start, calls: list[dict[str, str]]) -> list[Output]:
        messages: list[ToolCallDelta | End] = []
        for number, call in enumerate(calls):
            name, arguments = call["name"], call["arguments"]
            call_id = f"call_{start.request_id}_{number}"[-32:]
            half = len(arguments) // 2
            messages += [
                ToolCallDelta(call_id, name, arguments[:half], number),
                ToolCallDelta(call_id, name, arguments[half:], number),
            ]
        messages.append(End("tool_calls", Usage(7, 5)))
        return [Output(start.request_id, message) for message in messages]

    def close(self, request_id: str) -> None:
        """Forget the reply."""
        self._replies.pop(request_id, None)


def _fault(fault: str, request_id: str) -> None:
    if fault == "crash":
        os._exit(13)
    if fault == "hang":
        threading.Event().wait()
    if fault == "exhaust":
        raise MemoryError("no room for 1 GiB")
    raise StageError(request_id, "scripted_fault", "the script said so")


@dataclass(slots=True)
class _Speech:
    text: str = ""
    chars: int = 0
    frames: int = 0


class ScriptedTalker(Stage):
    """`char_ms` of tone for each character, a word at a time; frames are float32 [n, 1]."""

    def __init__(self, settings: StageSettings) -> None:
        self._char_ms: float = settings.options.get("char_ms", 50)
        self._speeches: dict[str, _Speech] = {}
        self._speeds: dict[str, float] = {}

    def load(self) -> None:
        """Nothing to load."""

    def open(self, start: Start) -> None:
        """Begin at character 0."""
        self._speeches[start.request_id] = _Speech()
        self._speeds[start.request_id] = start.speed

    def step(self, batch: Batch) -> list[Output]:
        """Frames of every word that is complete."""
        outputs: list[Output] = []
        for work in batch:
            for given in work.inputs:
                if isinstance(given.message, Condition):
                    self._speeches[work.request_id].text += given.message.text
                ended = isinstance(given.message, End)
                outputs += self._say(work.request_id, ended)
                if ended:
                    outputs.append(Output(work.request_id, End()))
        return outputs

    def _say(self, request_id: str, ended: bool) -> list[Output]:
        speech = self._speeches[request_id]
        outputs = []
        while speech.text and (ended or " " in speech.text[1:]):
            cut = speech.text.find(" ", 1) if " " in speech.text[1:] else len(speech.text)
            word, speech.text = speech.text[:cut], speech.text[cut:]
            frames = round(len(word) * self._char_ms / FRAME_MS / self._speeds[request_id])
            speech.frames += frames
            span = (speech.chars, speech.chars + len(word), speech.frames)
            speech.chars += len(word)
            tone = np.full((frames, 1), 0.25, np.float32)
            outputs.append(Output(request_id, Frames(alignment=(span,)), tone))
        return outputs

    def close(self, request_id: str) -> None:
        """Forget the reply."""
        self._speeches.pop(request_id, None)
        self._speeds.pop(request_id, None)


@dataclass(slots=True)
class _Tone:
    levels: deque[float] = field(default_factory=deque)
    spans: deque[tuple[int, int, int]] = field(default_factory=deque)
    made: int = 0
    ended: bool = False


class ScriptedVoiceBox(Stage):
    """A 440 Hz tone, `chunk_ms` a step, each step taking `step_ms` of pretended work."""

    def __init__(self, settings: StageSettings) -> None:
        self._chunk_frames = max(1, round(settings.options.get("chunk_ms", 200) / FRAME_MS))
        self._step_s = settings.options.get("step_ms", 0) / 1000
        self._tones: dict[str, _Tone] = {}

    def load(self) -> None:
        """Nothing to load."""

    def open(self, start: Start) -> None:
        """Begin at sample 0."""
        self._tones[start.request_id] = _Tone()

    def step(self, batch: Batch) -> list[Output]:
        """One chunk for each request."""
        return [output for work in batch for output in self._advance(work)]

    def _advance(self, work: Work) -> list[Output]:
        tone = self._tones[work.request_id]
        for given in work.inputs:
            if isinstance(given.message, Frames) and given.array is not None:
                tone.levels.extend(given.array[:, 0].tolist())
                if given.part == 0:
                    tone.spans.extend(given.message.alignment)
            tone.ended |= isinstance(given.message, End)
        frames = min(len(tone.levels), self._chunk_frames)
        outputs: list[Output] = []
        if frames:
            if self._step_s:
                time.sleep(self._step_s)
            outputs += self._chunk(work.request_id, tone, frames)
        work.more = bool(tone.levels) or tone.ended
        if tone.ended and not tone.levels:
            outputs.append(Output(work.request_id, End()))
        return outputs

    def _chunk(self, request_id: str, tone: _Tone, frames: int) -> list[Output]:
        levels = np.repeat([tone.levels.popleft() for _ in range(frames)], FRAME_SAMPLES)
        at = np.arange(len(levels)) + tone.made * FRAME_SAMPLES
        samples = levels * np.sin(2 * np.pi * 440 * at / OUTPUT_RATE_HZ)
        tone.made += frames
        spans = []
        while tone.spans and tone.spans[0][2] <= tone.made:
            begin, end, frame = tone.spans.popleft()
            spans.append((begin, end, frame * FRAME_SAMPLES))
        pcm = np.round(samples * 32767).astype(np.int16)
        outputs = [Output(request_id, Alignment(tuple(spans)))] if spans else []
        return [*outputs, Output(request_id, Audio(len(pcm)), pcm)]

    def close(self, request_id: str) -> None:
        """Forget the reply."""
        self._tones.pop(request_id, None)
