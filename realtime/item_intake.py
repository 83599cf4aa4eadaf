"""Items that a client brings: checked, given ids, and freed of audio and pictures inside them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from realtime import errors
from realtime.commands import Picture
from realtime.conversation import Entry
from realtime.outgoing import NewId
from realtime.protocol.config import AnyFormat, Opus, Pcm, rate_of
from realtime.protocol.items import (
    AnyItem,
    AssistantMessage,
    FunctionCall,
    FunctionCallOutput,
    InputAudio,
    InputImage,
    InputText,
    OutputAudio,
    OutputText,
    UserMessage,
)

MIN_PCM_BYTES = 2


@dataclass(frozen=True, slots=True)
class ItemAudio:
    """Audio that came inside an item, still encoded, and which part of the item it is."""

    content_index: int
    data: bytes
    seconds: float


def take_in(
    item: AnyItem,
    param: str,
    encoding: AnyFormat,
    new_id: NewId,
    knows_call: Callable[[str], bool],
    sizes: Iterator[tuple[int, int]] | None = None,
) -> tuple[Entry, list[ItemAudio]]:
    """The entry of a client's item, and what in it is to be transcribed. Raises ClientError.

    param: where the item is in the event. encoding: of the audio in it. sizes: height and width of
    its pictures, in order, which were found good; None if the Thinker sees nothing.
    """
    changes: dict[str, Any] = {"id": item.id or new_id("item"), "status": "completed"}
    match item:
        case FunctionCallOutput(call_id=call_id):
            if not knows_call(call_id):
                raise errors.unknown_call(call_id, f"{param}.call_id")
        case FunctionCall():
            changes["call_id"] = item.call_id or new_id("call")
        case UserMessage():
            return _take_in_user(item, param, encoding, changes, sizes)
        case AssistantMessage(content=content):
            changes["content"] = tuple(_as_output(part) for part in content)
    return Entry(item.model_copy(update=changes)), []


def _as_output(part: OutputText | OutputAudio | InputText) -> OutputText | OutputAudio:
    if isinstance(part, InputText):
        return OutputText(text=part.text)
    if isinstance(part, OutputAudio):
        return OutputAudio(transcript=part.transcript or "")
    return part


def _take_in_user(
    item: UserMessage,
    param: str,
    encoding: AnyFormat,
    changes: dict[str, Any],
    sizes: Iterator[tuple[int, int]] | None,
) -> tuple[Entry, list[ItemAudio]]:
    content: list[InputText | InputAudio | InputImage] = []
    pictures: dict[int, Picture] = {}
    transcripts: dict[int, str | None] = {}
    audio: list[ItemAudio] = []
    for index, part in enumerate(item.content):
        where = f"{param}.content[{index}]"
        if isinstance(part, InputImage):
            if sizes is None:
                raise errors.no_images(where)
            pictures[index] = Picture(changes["id"], index, part.image_url or "", *next(sizes))
            content.append(part.model_copy(update={"image_url": None}))
            continue
        if isinstance(part, InputText):
            content.append(part)
            continue
        content.append(InputAudio(transcript=part.transcript))
        if part.audio:
            audio.append(_decode(index, part.audio, f"{where}.audio", encoding))
            transcripts[index] = None
        else:
            # No sound: what the client says was said is all there is.
            transcripts[index] = part.transcript or ""
    changes["content"] = tuple(content)
    entry = Entry(item.model_copy(update=changes), transcripts=transcripts, pictures=pictures)
    return entry, audio


def _decode(index: int, text: str, param: str, encoding: AnyFormat) -> ItemAudio:
    described = encoding_in_words(encoding)
    if isinstance(encoding, Opus):
        # A part holds one string, and an Opus packet says nothing of where the next one begins.
        raise errors.invalid_audio("PCM or G.711; Opus cannot come inside an item", param)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise errors.invalid_audio(described, param) from None
    width = MIN_PCM_BYTES if isinstance(encoding, Pcm) else 1
    if not data or len(data) % width:
        raise errors.invalid_audio(described, param)
    return ItemAudio(index, data, len(data) / width / rate_of(encoding))


def encoding_in_words(encoding: AnyFormat) -> str:
    """A format as error messages name it."""
    rate = f"{rate_of(encoding) / 1000:g}kHz"
    names = {
        "audio/pcm": f"mono PCM16 at {rate}",
        "audio/pcmu": f"mono G.711 µ-law at {rate}",
        "audio/pcma": f"mono G.711 A-law at {rate}",
        "audio/opus": "one Opus packet",
    }
    return names[encoding.type]
