"""From a chat's messages to a prompt: what the messages together may not have."""

from __future__ import annotations

import base64
import io
import json

import pytest
from PIL import Image

from realtime.rest.chat_prompt import PromptBuilder
from realtime.rest.chat_request import ChatRequest
from realtime.rest.errors import ApiError


async def test_all_pictures_of_a_chat_together_have_a_limit() -> None:
    file = io.BytesIO()
    Image.new("RGB", (20, 10)).save(file, "PNG")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    parts = [{"type": "image_url", "image_url": {"url": url}}] * 3
    body = {"model": "sori", "messages": [{"role": "user", "content": parts}]}
    messages = ChatRequest.model_validate_json(json.dumps(body)).messages
    for limit, refused in ((600, False), (599, True)):
        builder = PromptBuilder(
            None, lambda _: None, max_audio_s=1, max_pixels=200, max_all_pixels=limit
        )
        if not refused:
            assert len((await builder.build(messages)).pictures) == 3
            continue
        with pytest.raises(ApiError, match="600 pixels; 599 are taken") as refusal:
            await builder.build(messages)
        assert refusal.value.param == "messages[0].content[2].image_url.url"
