"""Prompts of Qwen's omni models: ChatML, in token ids; and text out of tokens, as they come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pipeline.messages import PICTURE, RECORDING, PromptItem
from pipeline.stages.omni_checkpoint import CheckpointError

UNFINISHED = "\ufffd"
PLACES = (
    (
        ("<|audio_start|>", "<|audio_pad|>", "<|audio_end|>"),
        ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>"),
    ),
    (
        ("<|audio_bos|>", "<|AUDIO|>", "<|audio_eos|>"),
        ("<|vision_bos|>", "<|IMAGE|>", "<|vision_eos|>"),
    ),
)
"""Of a recording and of a picture: in Qwen3-Omni's chat template, and in Qwen2.5-Omni's."""


class OmniTokenizer:
    """The tokenizer of a checkpoint. Raises CheckpointError if the folder has none that will do."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = _load(folder)
        self._sound, self._sight = self._places(folder)

    def _places(self, folder: Path) -> tuple[str, str]:
        for sound, sight in PLACES:
            if all(self._tokenizer.token_to_id(one) is not None for one in sound + sight):
                return "".join(sound), "".join(sight)
        raise CheckpointError(f"{folder}: the tokenizer has no places for recordings and pictures")

    def encode(self, text: str) -> list[int]:
        """Ids of a text; what looks like a special token in it is one."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def prompt(self, items: Iterable[PromptItem]) -> list[int]:
        """A conversation in ChatML, up to the header of the reply.

        What looks like a special token in a text becomes none, so that nobody can put words into
        another role's mouth. A recording or picture is one placeholder, still to be made as long as
        it is.
        """
        ids: list[int] = []
        for item in items:
            role = "user" if item.role == "tool" else item.role
            text = _written(item).replace("<|", "<| ").replace(RECORDING, self._sound)
            text = text.replace(PICTURE, self._sight)
            ids += self.encode(f"<|im_start|>{role}\n{text}<|im_end|>\n")
        return ids + self.encode("<|im_start|>assistant\n")


def _written(item: PromptItem) -> str:
    """Its text, with calls and what they returned as in Qwen's chat templates."""
    if item.role == "tool":
        return f"<tool_response>\n{item.text}\n</tool_response>"
    calls = [
        f'<tool_call>\n{{"name": {json.dumps(c.name)}, "arguments": {c.arguments}}}\n</tool_call>'
        for c in item.tool_calls
    ]
    return "\n".join([item.text, *calls] if item.text else calls)


class TextStream:
    """Tokens in, text out; bytes of a character that is not complete wait."""

    def __init__(self, tokenizer: OmniTokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._told = ""

    def push(self, token: int) -> str:
        """What this token completes."""
        self._ids.append(token)
        text = self._tokenizer.decode(self._ids)
        if text.endswith(UNFINISHED):
            return ""
        new, self._told = text[len(self._told) :], text
        if len(self._ids) > 64:  # so that a long reply does not cost more and more
            self._ids, self._told = [], ""
        return new

    def flush(self) -> str:
        """What is left, complete or not."""
        return self._tokenizer.decode(self._ids)[len(self._told) :]


class StopGuard:
    """Text in, text out up to the first stop string; what may become one waits."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """What of it can be told now."""
        self._held += text
        ends = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if ends:
            self.stopped = True
            told, self._held = self._held[: min(ends)], ""
            return told
        kept = max((_overlap(self._held, stop) for stop in self._stops), default=0)
        cut = len(self._held) - kept
        told, self._held = self._held[:cut], self._held[cut:]
        return told

    def flush(self) -> str:
        """The rest: the reply is over, and it was no stop string."""
        told, self._held = self._held, ""
        return told


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of the text that a stop string begins with."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)


def _load(folder: Path) -> Any:
    from tokenizers import Tokenizer

    if (folder / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    if (folder / "vocab.json").is_file():
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder).backend_tokenizer
    raise CheckpointError(f"{folder}: no tokenizer here (tokenizer.json or vocab.json)")
