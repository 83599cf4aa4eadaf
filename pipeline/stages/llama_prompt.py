"""Between Sori's prompt items and llama.cpp's chat requests: messages and forced calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.messages import (
    PromptItem,
    StageMessage,
    Start,
    TokenLogprob,
    Tool,
    ToolCallDelta,
)

__all__ = ["CallStream", "chat_messages", "forced_calls", "logprobs_of"]


def chat_messages(items: Sequence[PromptItem]) -> list[dict[str, Any]]:
    """The messages of a chat request.

    Templates of small models know no tool roles, so calls and their results are told as text.
    """
    messages: list[dict[str, Any]] = []
    for item in items:
        role, text = item.role, item.text
        if role == "tool":
            role, text = "user", f"Result of the function call: {text}"
        for call in item.tool_calls:
            text = f"{text}\nCalled {call.name} with {call.arguments}".strip()
        if messages and messages[-1]["role"] == role != "system":
            messages[-1]["content"] += "\n" + text
        else:
            messages.append({"role": role, "content": text})
    return messages


def forced_calls(start: Start) -> Mapping[str, Any] | None:
    """A schema that allows nothing but a call, where the client demands one; else None.

    `auto` is left to the model: llama.cpp knows no tools for this chat template.
    """
    if start.tool_choice in ("auto", "none") or not start.tools:
        return None
    named = [tool for tool in start.tools if tool.name == start.tool_choice]
    calls = [_call_schema(tool) for tool in named or start.tools]
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


def logprobs_of(choice: Mapping[str, Any]) -> tuple[TokenLogprob, ...]:
    """The probabilities in a choice of a chunk, if they were asked for."""
    told = (choice.get("logprobs") or {}).get("content") or ()
    return tuple(
        TokenLogprob(
            one["token"],
            one["logprob"],
            tuple((other["token"], other["logprob"]) for other in one.get("top_logprobs", ())),
        )
        for one in told
    )


def _call_schema(tool: Tool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "name": {"const": tool.name},
            "arguments": {"type": "object", **tool.parameters},
        },
        "required": ["name", "arguments"],
    }


class CallStream:
    """Turns the text of a forced call into deltas of its arguments, as they are written.

    The text is `{"name": "...", "arguments": {...}}`, with spaces where the grammar allows them.
    """

    def __init__(self, request_id: str) -> None:
        self._call_id = f"call_{request_id}"[:32]
        self._text = ""
        self._name = ""
        self._from = 0
        self._sent = 0

    def feed(self, text: str) -> list[StageMessage]:
        """More text; returns the deltas it completes."""
        self._text += text
        if not self._name and not self._read_name():
            return []
        end = _value_end(self._text, self._from)
        if end <= self._sent:
            return []
        part, self._sent = self._text[self._sent : end], end
        return [ToolCallDelta(self._call_id, self._name, part)]

    def _read_name(self) -> bool:
        key = self._text.find('"arguments"')
        colon = self._text.find(":", key + 11) if key >= 0 else -1
        if colon < 0:
            return False
        brace = self._text.find("{", colon)
        if brace < 0:
            return False
        head = self._text[:key].rstrip().rstrip(",") + "}"
        self._name = json.loads(head)["name"]
        self._from = self._sent = brace
        return True


def _value_end(text: str, start: int) -> int:
    """End of the JSON object that begins at `start`, or of the text if it is not complete."""
    depth, quoted, escaped = 0, False, False
    for i in range(start, len(text)):
        character = text[i]
        if escaped:
            escaped = False
        elif quoted:
            escaped = character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
            if depth == 0:
                return i + 1
    return len(text)
