"""Whatever comes, in whatever order: one answer to each mistake, one end to each response."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pair import Pair
from random_client import RandomClient, frames
from scripted_engine import scripted_stages
from test_ws import receive, serving

from realtime.config import Config
from realtime.picture_limits import PictureLimits
from realtime.protocol.config import (
    Audio,
    AudioInput,
    AudioOutput,
    SemanticVad,
    ServerVad,
    SessionConfig,
    Transcription,
)
from realtime.transcription_session import without_answers

SEQUENCES = 20_000
STEPS = 12
BATCHES = 20
CHECKED_BY_OFFICIAL_TYPES = 10
"""Of so many sequences one: the official types are slow to check."""

_SILENCE = SessionConfig(audio=Audio(input=AudioInput(turn_detection=ServerVad())))
_ALL = SessionConfig(
    audio=Audio(
        input=AudioInput(
            turn_detection=SemanticVad(eagerness="high", interrupt_confirm_ms=100),
            transcription=Transcription(),
        ),
        output=AudioOutput(keeps_buffer=True),
    )
)
_NO_TURNS = SessionConfig(audio=Audio(input=AudioInput(turn_detection=None)))
SESSIONS: tuple[dict[str, Any], ...] = (
    {"config": _SILENCE},
    {"config": _ALL},
    {"config": _NO_TURNS},
    {"config": without_answers(_ALL), "transcribes": True},
    {"config": _ALL, "max_buffer_s": 0.5, "refuse_overflow": True},
    {"config": _ALL, "max_item_audio_bytes": 100, "max_kept_audio_bytes": 250},
    {"config": _SILENCE, "max_parallel_responses": 1},
    {"config": _ALL, "sight": PictureLimits(2, 3, 999, 9, 99), "max_heard_s": 1.0},
)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_sequences_are_answered_as_they_should(batch: int) -> None:
    ended = 0
    for seed in range(batch, SEQUENCES, BATCHES):
        checked = seed // BATCHES % CHECKED_BY_OFFICIAL_TYPES == 0
        pair = Pair(strict=checked, **SESSIONS[seed // BATCHES % len(SESSIONS)])
        client = RandomClient(pair, seed)
        try:
            for _ in range(STEPS):
                client.act()
            pair.session.close()
            pair.drain()
            pair.check()
            created, done = pair.of("response.created"), pair.of("response.done")
            assert len(created) == len(done)
        except Exception as error:
            error.add_note(f"seed {seed}: {[one['type'] for one in pair.log]}")
            raise
        ended += len(done)
    assert ended > SEQUENCES / BATCHES / 4


CONNECTIONS = 500
FRAMES = 10
CLEAR = "input_audio_buffer.clear"
"""Always acknowledged: the last one tells that all frames before it have been dealt with."""


async def test_random_frames_leave_the_socket_open(
    scripted: Config, caplog: pytest.LogCaptureFixture
) -> None:
    stages = scripted_stages(thinker={"text": "Yes."}, talker={"char_ms": 2})
    async with serving(scripted.model_copy(update={"stages": stages})) as server:
        for seed in range(CONNECTIONS):
            sent = list(frames(seed, FRAMES))
            async with server.connect() as client:
                for _, frame in sent:
                    await client.send(
                        frame if isinstance(frame, str | bytes) else json.dumps(frame)
                    )
                await client.send(json.dumps({"type": CLEAR}))
                log: list[dict[str, Any]] = []
                clears = sum(kind == "right" and frame["type"] == CLEAR for kind, frame in sent) + 1
                while clears:
                    log.append(await receive(client))
                    clears -= log[-1]["type"] == "input_audio_buffer.cleared"
            _check(seed, sent, log)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def _check(seed: int, sent: list[tuple[str, Any]], log: list[dict[str, Any]]) -> None:
    errors = [event["error"] for event in log if event["type"] == "error"]
    right = [error for error in errors if error["event_id"] == "right"]
    assert all(error["code"] for error in errors), seed
    assert len(errors) - len(right) == sum(kind != "right" for kind, _ in sent), (seed, errors)
    done = [event["response"]["id"] for event in log if event["type"] == "response.done"]
    assert len(set(done)) == len(done), seed
