"""Sixteen requests at once through the three stages of an omni model: each as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from omni_oracle import Stages, Streamed, fed, given, heard, pictured, request, streamed

from pipeline.messages import PICTURE, RECORDING, Condition, End, Failed, Frames, Sampling, Start
from pipeline.stage import Input, Output, Work

TEXTS = [
    "word " * 12,
    f"{RECORDING} What was that?",
    f"{PICTURE} What is that?",
    f"{PICTURE} and {RECORDING}, {RECORDING}",
]
LEADS_MS = [None, 0.0, 500.0, 3000.0]


@dataclass(frozen=True, slots=True)
class Guest:
    """A request, and what its prompt has beside words."""

    start: Start
    recordings: Sequence[NDArray[np.int16]] = ()
    pictures: Sequence[NDArray[np.uint8]] = ()


def crowd(random: np.random.Generator) -> list[Guest]:
    """Sixteen, of words, of recordings, of pictures and of both, in one turn or in several."""
    guests = []
    for number in range(16):
        words, text = "Well " * int(random.integers(1, 20)), TEXTS[number % 4]
        turns = [text, "I see.", words] if number % 3 == 0 else [words + text]
        start = request(
            f"guest-{number}",
            *turns,
            system="be nice" if number % 2 else "",
            voice=["ethan", "chelsie"][number // 2 % 2],
            seed=7,  # one for all: what differs comes from what they were asked
            latency_first=number % 5 > 0,
            sampling=Sampling(
                temperature=(number % 3) * 0.4, max_tokens=int(random.integers(3, 11))
            ),
        )
        start, recordings = heard(
            start, [int(size) for size in random.integers(2_000, 20_000, text.count(RECORDING))]
        )
        start, pictures = pictured(
            start, [tuple(random.integers(40, 120, 2)) for _ in range(text.count(PICTURE))]
        )
        guests.append(Guest(start, recordings, pictures))
    return guests


@dataclass(slots=True)
class Line:
    """One request on its way through the stages, which have opened it."""

    stages: Stages
    guest: Guest
    outputs: list[list[Output]] = field(default_factory=lambda: [[], [], []])
    over: bool = False
    ended: set[int] = field(default_factory=set)
    queued: list[list[Input]] = field(init=False)
    more: set[int] = field(default_factory=lambda: {0})

    def __post_init__(self) -> None:
        self.queued = [given(self.guest.recordings, self.guest.pictures), [], []]
        for stage in self.stages.in_order:
            stage.open(self.guest.start)

    def work(self, place: int, random: np.random.Generator) -> Work | None:
        """What this stage has to do for it: some of what waits there, or all."""
        if place in self.ended:  # a Talker may say its last before the Thinker does
            return None
        waiting = self.queued[place]
        count = len(waiting) if random.random() < 0.5 else int(random.integers(len(waiting) + 1))
        some, self.queued[place] = waiting[:count], waiting[count:]
        lead_ms = LEADS_MS[int(random.integers(len(LEADS_MS)))] if place == 2 else None
        work = Work(self.guest.start.request_id, some, lead_ms)
        return work if some or place in self.more else None

    def take(self, place: int, work: Work, made: Sequence[Output]) -> None:
        """What this stage has made of it."""
        (self.more.add if work.more else self.more.discard)(place)
        self.outputs[place] += made
        assert not any(isinstance(output.message, Failed) for output in made)
        if place < 2:
            self.queued[place + 1] += fed(made, (Condition, Frames)[place])
        if any(isinstance(output.message, End) for output in made):
            self.ended.add(place)
        if self.ended == {0, 1, 2}:
            self.close()

    def close(self) -> None:
        """Its end, or an abort in the middle."""
        for stage in self.stages.in_order:
            stage.close(self.guest.start.request_id)
        self.over = True


def step(lines: Sequence[Line], place: int, random: np.random.Generator) -> int:
    """One step of a stage for all of these that have something to do there; how many that were."""
    works = [(line, work) for line in lines if (work := line.work(place, random))]
    if works:
        made = works[0][0].stages.in_order[place].step([work for _, work in works])
        for line, work in works:
            line.take(place, work, [one for one in made if one.request_id == work.request_id])
    return len(works)


def interleaved(
    stages: Stages, guests: Sequence[Guest], random: np.random.Generator
) -> dict[str, Streamed]:
    """They come when they come, any of them take part in a step, and a quarter may be aborted."""
    waiting, running, finished = list(guests), list[Line](), dict[str, Streamed]()
    may_abort = {guest.start.request_id for guest in guests[::5]}
    largest = [0, 0, 0]
    while waiting or running:
        if waiting and (not running or random.random() < 0.3):
            running.append(Line(stages, waiting.pop(int(random.integers(len(waiting))))))
        for line in running:
            if line.guest.start.request_id in may_abort and random.random() < 0.05:
                line.close()
        running = [line for line in running if not line.over]
        place = int(random.integers(3))
        some = [line for line in running if random.random() < 0.7]
        largest[place] = max(largest[place], step(some, place, random))
        for line in running:
            if line.over:
                finished[line.guest.start.request_id] = streamed(*line.outputs)
        running = [line for line in running if not line.over]
    assert min(largest) >= 4
    return finished


def check_crowd(stages: Stages, seed: int) -> None:
    """Words, codes and samples of each are those of its own run, samples within one step."""
    random = np.random.default_rng(seed)
    guests = crowd(random)
    together = interleaved(stages, guests, random)
    assert 12 <= len(together) < 16  # some were aborted
    codes = set()
    for guest in guests:
        alone = stages.run(guest.start, guest.recordings, guest.pictures)
        codes.add(alone.codes.tobytes())
        if (got := together.get(guest.start.request_id)) is not None:
            assert got.tokens == alone.tokens
            assert got.end == alone.end
            assert np.array_equal(got.codes, alone.codes)
            assert len(got.samples) == len(alone.samples)
            assert np.abs(got.samples.astype(int) - alone.samples).max() <= 1
    assert len(codes) >= 10  # they are told apart
