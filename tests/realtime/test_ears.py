"""Sample counts of a session whose turn detection comes and goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pipeline.engine import Engine
from pipeline.messages import Speech
from realtime.ears import Ears

WINDOW = np.zeros(512, np.int16)


class LateEars:
    """A VAD whose results come only when the test asks for them."""

    def __init__(self) -> None:
        self.fed = 0
        self.resets = 0
        self.closed = False

    def listen(self, session_id: str, on_speech: Callable[[Speech], None]) -> LateEars:
        self.on_speech = on_speech
        return self

    def answer(self, end_sample: int) -> None:
        self.on_speech(Speech(0.9, end_sample))

    def feed(self, samples: NDArray[np.int16]) -> None:
        self.fed += len(samples)

    def reset(self) -> None:
        self.resets += 1

    def close(self) -> None:
        self.closed = True


def listen() -> tuple[Ears, LateEars, list[int]]:
    vad = LateEars()
    ends: list[int] = []
    ears = Ears(cast(Engine, vad), "s", lambda speech: ends.append(speech.end_sample))
    return ears, vad, ends


def test_counts_are_the_vads_own_while_nothing_is_skipped() -> None:
    ears, vad, ends = listen()
    ears.feed(WINDOW)
    vad.answer(512)

    assert ends == [512]
    assert vad.fed == 512


def test_what_was_skipped_shifts_only_what_came_after_it() -> None:
    ears, vad, ends = listen()
    ears.feed(WINDOW)
    ears.skip(1000)
    ears.skip(24)
    ears.feed(WINDOW)
    ears.skip(6)
    ears.feed(WINDOW)
    for end in (512, 1024, 1536):
        vad.answer(end)

    assert ends == [512, 1024 + 1024, 1536 + 1030]


def test_samples_skipped_before_the_first_are_counted() -> None:
    ears, vad, ends = listen()
    ears.skip(100)
    ears.feed(WINDOW)
    vad.answer(512)

    assert ends == [612]


def test_reset_and_close_reach_the_vad() -> None:
    ears, vad, _ = listen()
    ears.reset()
    ears.close()

    assert (vad.resets, vad.closed) == (1, True)
