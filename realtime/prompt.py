"""What the Thinker gets of a conversation: words, and the recordings that it hears itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.messages import PICTURE, RECORDING, PromptItem, ToolCall
from realtime.commands import Recording
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
    """recordings: one for each RECORDING in the texts, in order."""

    items: tuple[PromptItem, ...]
    recordings: tuple[Recording, ...] = ()


def prompt_of(instructions: str, entries: Iterable[Entry]) -> Prompt:
    """The prompt of entries that are ready. What is still being written is left out."""
    items = [PromptItem("system", _plain(instructions))] if instructions else []
    recordings: list[Recording] = []
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
                    items.append(PromptItem(message.role, text))
                    recordings += [one for _, one in sorted(entry.recordings.items())]
    return Prompt(tuple(items), tuple(recordings))


def _text(entry: Entry, message: SystemMessage | UserMessage | AssistantMessage) -> str:
    """With RECORDING where there is one."""
    if not entry.recordings:
        return _plain(entry.text())
    texts = [
        RECORDING if index in entry.recordings else _plain(entry.part_text(index, part))
        for index, part in enumerate(message.content)
    ]
    return "\n".join(text for text in texts if text)


def _plain(text: str) -> str:
    """Nobody else writes a RECORDING or a PICTURE."""
    return text.replace(RECORDING, "").replace(PICTURE, "")
