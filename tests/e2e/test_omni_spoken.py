"""A user speaks to an omni model, which hears the recording itself, without a transcript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omni_oracle import MAX_FRAMES

from bench.client import open_client
from bench.clips import load_clips
from bench.server import start_server
from pipeline.messages import RECORDING, PromptItem
from pipeline.models.tiny_qwen3_omni import make_tiny_qwen3_omni
from pipeline.stages.omni_text import OmniTokenizer

TOKENS = 10
SYSTEM = "You are kind."
FRAME_SAMPLES = 1920
LAST_SAMPLES = 555
"""Of the last frame; they would need one more."""

pytestmark = pytest.mark.models


async def test_a_spoken_turn_is_heard_and_answered_once(tmp_path: Path) -> None:
    make_tiny_qwen3_omni(tmp_path)
    model = {"model": str(tmp_path)}
    options: dict[str, dict[str, Any]] = {
        "thinker": {"temperature": 0.0},
        "talker": {"greedy": True, "max_frames": MAX_FRAMES},
        "voicebox": {},
    }
    stages = {
        name: {"kind": f"qwen3_omni_{name}", "options": model | chosen}
        for name, chosen in options.items()
    }
    config = {"stages": stages, "instructions": SYSTEM, "voice": "ethan"}
    clip = next(one for one in load_clips() if 1500 <= one.speech_end_ms <= 4000)
    detection = {"type": "server_vad", "silence_duration_ms": 700}
    session = {"max_output_tokens": TOKENS, "audio": {"input": {"turn_detection": detection}}}
    with start_server(config, ready_timeout_s=100) as server:
        async with open_client(server.realtime_url, session=session) as client:
            turn = await client.speak(clip)
            events = [got.type for got in client.events]
    assert (turn.failure, turn.errors) == (None, [])
    assert events.count("input_audio_buffer.committed") == 1
    assert events.count("response.created") == events.count("response.done") == 1
    assert not [name for name in events if "input_audio_transcription" in name]
    (done,) = [got.event["response"] for got in turn.events if got.type == "response.done"]
    # What the model got is its instructions and a recording of so many tokens, 13 a second.
    given = done["usage"]["input_token_details"]
    items = [PromptItem("system", SYSTEM), PromptItem("user", RECORDING)]
    assert given["text_tokens"] == len(OmniTokenizer(tmp_path).prompt(items)) - 1
    spoken_s = (clip.speech_end_ms - clip.speech_start_ms) / 1000
    assert given["audio_tokens"] >= 12 * spoken_s
    (reply,) = turn.replies
    assert reply.transcript
    assert len(reply.audio) % FRAME_SAMPLES == FRAME_SAMPLES - LAST_SAMPLES
    assert abs(reply.audio.astype(int)).max() > 300
