"""From the messages of a chat request to the prompt of the Thinker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.messages import INPUT_RATE_HZ, PICTURE, RECORDING, PromptItem, ToolCall
from realtime.picture_limits import PictureLimits
from realtime.pictures import PictureError, decode_picture
from realtime.rest.chat_request import (
    AssistantMessage,
    AudioPart,
    DeveloperMessage,
    FilePart,
    ImagePart,
    Message,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from realtime.rest.errors import MISSING, ApiError, bad_request
from realtime.rest.recordings import Heard, decode_recording

Hear = Callable[[NDArray[np.int16], str], AsyncIterator[Heard]]
"""Samples at 16 kHz and a name for the request, to transcripts of their windows."""

AUDIO_TOKEN_SAMPLES = INPUT_RATE_HZ // 10
"""100 ms of the user's audio count as a token."""

MAX_PICTURES = 16
"""In one request."""


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """items: for the Thinker. audio_tokens: of recordings that were written down.

    recordings: 16 kHz samples, one after the other, for a Thinker that hears.
    pictures: RGB [height, width, 3], for one that sees.
    """

    items: tuple[PromptItem, ...]
    audio_tokens: int = 0
    recordings: NDArray[np.int16] | None = None
    pictures: tuple[NDArray[np.uint8], ...] = ()


class PromptBuilder:
    """Reads messages in order.

    hear: transcribes a recording, since the Thinker of a cascade reads; None if it hears by itself.
    max_pixels: of one picture; 0 for a Thinker that does not see. max_all_pixels: of all together.
    recall: what was said in an earlier spoken answer, by its id. max_audio_s: of one recording.
    instructions: stand where a request has none of its own, without which small models ramble.
    """

    def __init__(
        self,
        hear: Hear | None,
        recall: Callable[[str], str | None],
        *,
        max_audio_s: float,
        max_pixels: int = 0,
        max_all_pixels: int = 0,
        instructions: str = "",
    ) -> None:
        self._instructions = instructions
        self._hear = hear
        self._recall = recall
        self._max_audio_s = max_audio_s
        self._audio_tokens = 0
        self._recordings: list[NDArray[np.int16]] = []
        self._max_pixels = max_pixels
        self._sight = PictureLimits(MAX_PICTURES, max_all_pixels)
        self._pixels = 0
        self._pictures: list[NDArray[np.uint8]] = []
        self._calls: set[str] = set()

    async def build(self, messages: tuple[Message, ...]) -> ChatPrompt:
        """The whole prompt. Raises ApiError naming the part at fault."""
        items = [
            await self._item(message, f"messages[{index}]")
            for index, message in enumerate(messages)
        ]
        if self._instructions and all(item.role != "system" for item in items):
            items.insert(0, PromptItem("system", self._instructions))
        recordings = np.concatenate(self._recordings) if self._recordings else None
        return ChatPrompt(tuple(items), self._audio_tokens, recordings, tuple(self._pictures))

    async def _item(self, message: Message, param: str) -> PromptItem:
        match message:
            case SystemMessage(content=content) | DeveloperMessage(content=content):
                return PromptItem("system", _text(content))
            case UserMessage(content=content):
                before, seen = len(self._recordings), len(self._pictures)
                text = await self._user_text(content, param)
                recorded = tuple(map(len, self._recordings[before:]))
                sizes = tuple((len(one), one.shape[1]) for one in self._pictures[seen:])
                return PromptItem("user", text, recordings=recorded, pictures=sizes)
            case AssistantMessage():
                return self._assistant(message, param)
            case ToolMessage(content=content, tool_call_id=call_id):
                if call_id not in self._calls:
                    raise bad_request(
                        f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in "
                        "'tool_calls' of a previous message.",
                        f"{param}.tool_call_id",
                    )
                return PromptItem("tool", _text(content), call_id=call_id)

    async def _user_text(self, content: str | tuple[Any, ...], param: str) -> str:
        if isinstance(content, str):
            return _plain(content)
        texts = [
            await self._part(part, f"{param}.content[{index}]")
            for index, part in enumerate(content)
        ]
        return "\n".join(text for text in texts if text)

    async def _part(self, part: Any, param: str) -> str:
        match part:
            case TextPart(text=text):
                return _plain(text)
            case AudioPart(input_audio=audio):
                where = f"{param}.input_audio.data"
                samples = await asyncio.to_thread(
                    decode_recording, audio.data, audio.format, self._max_audio_s, where
                )
                if self._hear is None:  # the Thinker counts for itself what it hears
                    self._recordings.append(samples)
                    return RECORDING
                self._audio_tokens += -(-len(samples) // AUDIO_TOKEN_SAMPLES)
                heard = [one.text async for one in self._hear(samples, param)]
                return " ".join(text for text in heard if text)
            case ImagePart(image_url=image):
                return await self._picture(image.url, param)
            case FilePart():
                raise bad_request("This model does not take files.", param, "unsupported_value")
        raise TypeError(part)

    async def _picture(self, url: str, param: str) -> str:
        if not self._max_pixels:
            raise bad_request("This model does not take images.", param, "unsupported_value")
        where = f"{param}.image_url.url"
        self._require_sight(where)
        try:
            picture = await asyncio.to_thread(decode_picture, url, self._max_pixels)
        except PictureError as error:
            raise bad_request(f"Invalid '{where}': {error}.", where, "invalid_image") from error
        self._pixels += len(picture) * picture.shape[1]
        self._pictures.append(picture)
        self._require_sight(where, more=0)
        return PICTURE

    def _require_sight(self, where: str, more: int = 1) -> None:
        if fault := self._sight.excess(len(self._pictures) + more, self._pixels):
            raise bad_request(f"Invalid '{where}': {fault}.", where, "invalid_image")

    def _assistant(self, message: AssistantMessage, param: str) -> PromptItem:
        calls = tuple(
            ToolCall(call.id, call.function.name, call.function.arguments)
            for call in message.tool_calls or ()
        )
        self._calls.update(call.call_id for call in calls)
        text = _text(message.content) if message.content is not None else message.refusal or ""
        if message.audio is not None and message.content is None:
            said = self._recall(message.audio.id)
            if said is None:
                raise ApiError(
                    HTTPStatus.NOT_FOUND,
                    f"Audio with id '{message.audio.id}' not found. It may have expired: send its "
                    "transcript as 'content' instead.",
                    code="audio_not_found",
                    param=f"{param}.audio.id",
                )
            text = said
        elif message.content is None and message.refusal is None and not calls:
            raise bad_request(
                f"Missing required parameter: '{param}.content'. An assistant message without "
                "'audio' or 'tool_calls' needs it.",
                f"{param}.content",
                MISSING,
            )
        return PromptItem("assistant", text, tool_calls=calls)


def _plain(text: str) -> str:
    """Nobody else writes a RECORDING or a PICTURE."""
    return text.replace(RECORDING, "").replace(PICTURE, "")


def _text(content: str | tuple[Any, ...]) -> str:
    if isinstance(content, str):
        return _plain(content)
    return "\n".join(
        _plain(part.refusal if isinstance(part, RefusalPart) else part.text) for part in content
    )
