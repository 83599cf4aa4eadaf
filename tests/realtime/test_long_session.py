"""Half an hour of audio, as fast as it can be heard: what an append costs and what is kept."""

from __future__ import annotations

import gc
import logging
import sys
import tracemalloc
from types import FrameType
from typing import Any

import numpy as np
import pytest
from scripted_engine import scripted_stages
from test_driver import SERVER_VAD, Wire, driving, silence, started, voice

from realtime.config import Config

pytestmark = pytest.mark.timeout(120)

TURN_S = 12.0
TURNS = 150  # half an hour
WARM_UP_TURNS = 75
APPEND_SAMPLES = 4_800  # 200 ms at 24 kHz
KEPT_PER_TURN_NBYTES = 20_000
"""Two items with their words. The audio of a turn is nearly twenty times as much."""

TURN = np.concatenate([voice(2.0), silence(TURN_S - 2.0)])


async def test_half_an_hour_costs_the_same_from_first_to_last(
    scripted: Config, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)  # pytest keeps what is logged
    stages = scripted_stages(thinker={"text": "Yes, it is."}, talker={"char_ms": 2})
    config = scripted.model_copy(update={"stages": stages, "max_kept_audio_bytes": 200_000})
    costs = []
    async with started(config) as service, driving(service) as wire:
        await wire.update(audio=SERVER_VAD)
        for turn in range(TURNS):
            if turn == WARM_UP_TURNS:
                gc.collect()
                tracemalloc.start()
            costs.append(await take_turn(wire))
        gc.collect()
        kept_nbytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert set(costs[1:]) == {costs[1]}
    assert kept_nbytes < (TURNS - WARM_UP_TURNS) * KEPT_PER_TURN_NBYTES


async def take_turn(wire: Wire) -> int:
    """Say something, be answered, be silent. Returns the calls that the last append took."""
    calls = 0
    for first in range(0, len(TURN), APPEND_SAMPLES):
        piece = TURN[first : first + APPEND_SAMPLES]
        if first + APPEND_SAMPLES < len(TURN):
            await wire.append(piece)
            continue
        await wire.wait_for("response.done")
        calls = await count_calls(wire, piece)
    wire.forget()
    return calls


async def count_calls(wire: Wire, piece: np.ndarray[Any, Any]) -> int:
    """Functions called for one append: a measure of its cost that no other load disturbs."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        await wire.append(piece)
    finally:
        sys.setprofile(None)
    return calls
