"""Qwen2.5-Omni through the whole server: its own `generate()`'s words, and a sound as long."""

from __future__ import annotations

import base64
import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import openai
from omni25_oracle import MAX_CODES, Official25
from servers import scripted

from bench.server import start_server
from pipeline.messages import PromptItem
from pipeline.models.tiny_qwen2_5_omni import make_tiny_qwen2_5_omni
from pipeline.stages.omni_text import OmniTokenizer


def test_a_chat_is_answered_in_the_official_words(tmp_path: Path) -> None:
    make_tiny_qwen2_5_omni(tmp_path)
    items = [PromptItem("system", "Be brief."), PromptItem("user", "hi there")]
    wanted = Official25(tmp_path).generate(items, 10, "Ethan")
    messages: list[Any] = [{"role": item.role, "content": item.text} for item in items]
    stages = scripted()
    model = {"model": str(tmp_path)}
    for name, options in {
        "thinker": model | {"temperature": 0.0},
        "talker": model | {"greedy": True, "max_frames": MAX_CODES},
        "voicebox": model,
    }.items():
        stages[name] |= {"kind": f"qwen2_5_omni_{name}", "options": options}
    config = {"stages": stages, "voice": "ethan", "watermark": {"enabled": False}}
    with (
        start_server(config) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused") as client,
    ):
        answer = client.chat.completions.create(
            model="sori",
            messages=messages,
            modalities=["text", "audio"],
            audio={"voice": "ethan", "format": "wav"},
            max_tokens=10,
        )
    audio = answer.choices[0].message.audio
    assert audio is not None
    assert audio.transcript == OmniTokenizer(tmp_path).decode(wanted.tokens)
    with wave.open(io.BytesIO(base64.b64decode(audio.data))) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert len(samples) == len(wanted.wave)
    assert np.abs(samples).max() > 300
