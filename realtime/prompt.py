"""What the Thinker gets of a conversation: words, and what it hears or sees itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.messages import PICTURE, RECORDING, PromptItem, ToolCall
from realtime.commands import Picture, Recording
from realtime.conversation import Entry
from realtime.protocol.items import (
    AssistantMessage,
    FunctionCall,
    FunctionCallOutput,
    SystemMessage,
    UserMessage,
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """recordings: one for each RECORDING in the texts, in order; pictures: for each PICTURE."""

    items: tuple[PromptItem, ...]
    recordings: tuple[Recording, ...] = ()
    pictures: tuple[Picture, ...] = ()


def prompt_of(instructions: str, entries: Iterable[Entry]) -> Prompt:
    """The prompt of entries that are ready. What is still being written is left out."""
    items = [PromptItem("system", _plain(instructions))] if instructions else []
    recordings: list[Recording] = []
    pictures: list[Picture] = []
    for entry in entries:
        if entry.in_progress:
            continue
        match entry.item:
            case FunctionCall(status=status) as item:
                if status == "incomplete":
                    continue
                call = ToolCall(item.call_id or "", item.name, item.arguments)
                if items and items[-1].tool_calls:
                    calls = (*items.pop().tool_calls, call)
                else:
                    calls = (call,)
                items.append(PromptItem("assistant", tool_calls=calls))
            case FunctionCallOutput(call_id=call_id, output=output):
                items.append(PromptItem("tool", _plain(output), call_id=call_id))
            case SystemMessage() | UserMessage() | AssistantMessage() as message:
                if text := _text(entry, message):
                    seen = [one for _, one in sorted(entry.pictures.items())]
                    sizes = tuple((one.height, one.width) for one in seen)
                    items.append(PromptItem(message.role, text, pictures=sizes))
                    recordings += [one for _, one in sorted(entry.recordings.items())]
                    pictures += seen
    return Prompt(tuple(items), tuple(recordings), tuple(pictures))


def _text(entry: Entry, message: SystemMessage | UserMessage | AssistantMessage) -> str:
    """With RECORDING and PICTURE where there is one."""
    if not entry.recordings and not entry.pictures:
        return _plain(entry.text())
    texts = []
    for index, part in enumerate(message.content):
        if index in entry.recordings:
            texts.append(RECORDING)
        elif index in entry.pictures:
            texts.append(PICTURE)
        else:
            texts.append(_plain(entry.part_text(index, part)))
    return "\n".join(text for text in texts if text)


def _plain(text: str) -> str:
    """Nobody else writes a RECORDING or a PICTURE."""
    return text.replace(RECORDING, "").replace(PICTURE, "")
