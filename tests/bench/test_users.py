"""`sori bench users` and `beside` count what a server of known behaviour does."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest
from realtime_double import Behaviour, realtime_double

from bench.beside import long_recording
from bench.clips import load_clips
from bench.users import judge, run_crowd, table


async def test_many_users_are_answered_beside_each_other() -> None:
    with realtime_double(Behaviour(wait_s=0.2)) as url:
        together = judge(await run_crowd(url, 4, 2.0, in_turn=False), 4, 2.0, in_turn=False)
        in_turn = judge(await run_crowd(url, 4, 2.0, in_turn=True), 4, 2.0, in_turn=True)
    assert (together.failed, in_turn.failed) == (0, 0)
    assert together.turns_a_minute > 2 * in_turn.turns_a_minute > 0
    assert together.first_audio_p50_ms is not None
    assert together.first_audio_p50_ms >= 190
    assert len(table([together, in_turn])) == 3


@pytest.mark.parametrize("minutes", [0.1, 1.0])
def test_a_long_recording_is_as_long_as_asked_for(minutes: float) -> None:
    clips = load_clips()
    with wave.open(io.BytesIO(long_recording(clips, minutes))) as file:
        assert file.getnframes() == minutes * 60 * 16_000
        head = np.frombuffer(file.readframes(1000), "<i2")
    assert np.array_equal(head, clips[0].samples[:1000])
