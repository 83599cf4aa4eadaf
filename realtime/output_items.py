"""The items of a response while they are written: each opens, grows and closes exactly once.

The order of events is that of the live service: an item's `conversation.item.done` comes before its
`response.output_item.done`. A response beside the conversation has no conversation events.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Literal

from realtime.conversation import Conversation, Entry, Spoken
from realtime.outgoing import Outgoing
from realtime.protocol import server
from realtime.protocol.items import (
    AnyItem,
    AssistantMessage,
    FunctionCall,
    OutputAudio,
    OutputText,
)

FinalStatus = Literal["completed", "incomplete"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item is: in which response, at which index, in which conversation if any."""

    out: Outgoing
    response_id: str
    output_index: int
    conversation: Conversation | None


class OutputItem:
    """What messages and calls have in common."""

    def __init__(self, place: Place, entry: Entry) -> None:
        self._place = place
        self.entry = entry
        self._open()

    def _open(self) -> None:
        place, item = self._place, self.entry.item
        place.out.say(
            server.OutputItemAdded(
                event_id=place.out.event_id(),
                response_id=place.response_id,
                output_index=place.output_index,
                item=item,
            )
        )
        if place.conversation is not None:
            place.conversation.insert(self.entry)
            place.out.say(
                server.ItemAdded(
                    event_id=place.out.event_id(),
                    previous_item_id=place.conversation.previous_id(self.entry.id),
                    item=item,
                )
            )

    def _close(self, item: AnyItem) -> None:
        place = self._place
        self.entry.item = item
        # The client may have deleted it meanwhile.
        if place.conversation is not None and self.entry.id in place.conversation:
            place.out.say(
                server.ItemDone(
                    event_id=place.out.event_id(),
                    previous_item_id=place.conversation.previous_id(self.entry.id),
                    item=item,
                )
            )
        place.out.say(
            server.OutputItemDone(
                event_id=place.out.event_id(),
                response_id=place.response_id,
                output_index=place.output_index,
                item=item,
            )
        )

    def close(self, status: FinalStatus) -> None:
        """Say all that is left to say of this item."""
        raise NotImplementedError


class OutputMessage(OutputItem):
    """Text, spoken or written."""

    def __init__(self, place: Place, item_id: str, *, spoken: bool) -> None:
        item = AssistantMessage(id=item_id, status="in_progress", content=())
        super().__init__(place, Entry(item, spoken=Spoken() if spoken else None))
        self._written = ""
        part = server.AudioPart() if spoken else server.TextPart()
        place.out.say(server.ContentPartAdded(**self._in_item(), part=part))

    def _in_item(self) -> server.InContentFields:
        place = self._place
        return {
            "event_id": place.out.event_id(),
            "response_id": place.response_id,
            "item_id": self.entry.id,
            "output_index": place.output_index,
        }

    def add_text(self, text: str) -> None:
        """More text."""
        out = self._place.out
        if self.entry.spoken is None:
            self._written += text
            out.say(server.OutputTextDelta(**self._in_item(), delta=text))
        else:
            self.entry.spoken.text += text
            out.say(server.OutputAudioTranscriptDelta(**self._in_item(), delta=text))

    def add_spans(self, spans: tuple[tuple[int, int, int], ...]) -> None:
        """Which words the next audio speaks."""
        if self.entry.spoken is not None:
            self.entry.spoken.spans.extend(spans)

    def add_audio(self, payloads: list[bytes], samples: int) -> None:
        """More audio, encoded; samples: how many it holds, at 24 kHz."""
        if self.entry.spoken is None:
            return
        self.entry.spoken.sent_samples += samples
        for payload in payloads:
            delta = base64.b64encode(payload).decode("ascii")
            self._place.out.say(server.OutputAudioDelta(**self._in_item(), delta=delta))

    def stop_at_what_was_sent(self) -> None:
        """The reply is cut short: nothing beyond its last audio can have been heard."""
        spoken = self.entry.spoken
        if spoken is not None and spoken.heard_samples is None:
            spoken.heard_samples = spoken.sent_samples

    def close(self, status: FinalStatus) -> None:
        """Say all that is left to say of this message."""
        out, spoken = self._place.out, self.entry.spoken
        part: server.AudioPart | server.TextPart
        content: OutputAudio | OutputText
        if spoken is None:
            out.say(server.OutputTextDone(**self._in_item(), text=self._written))
            part, content = server.TextPart(text=self._written), OutputText(text=self._written)
        else:
            text = spoken.text
            out.say(server.OutputAudioDone(**self._in_item()))
            out.say(server.OutputAudioTranscriptDone(**self._in_item(), transcript=text))
            part, content = server.AudioPart(transcript=text), OutputAudio(transcript=text)
        out.say(server.ContentPartDone(**self._in_item(), part=part))
        self._close(self.entry.item.model_copy(update={"status": status, "content": (content,)}))


class OutputCall(OutputItem):
    """A function call."""

    def __init__(self, place: Place, item_id: str, call_id: str, name: str) -> None:
        self._call_id = call_id
        self._name = name
        self._arguments = ""
        item = FunctionCall(
            id=item_id, status="in_progress", call_id=call_id, name=name, arguments=""
        )
        super().__init__(place, Entry(item))

    def add_arguments(self, arguments: str) -> None:
        """More of the JSON."""
        self._arguments += arguments
        if not arguments:
            return
        place = self._place
        place.out.say(
            server.FunctionCallArgumentsDelta(
                event_id=place.out.event_id(),
                response_id=place.response_id,
                item_id=self.entry.id,
                output_index=place.output_index,
                call_id=self._call_id,
                delta=arguments,
            )
        )

    def close(self, status: FinalStatus) -> None:
        """Say all that is left to say of this call."""
        place = self._place
        place.out.say(
            server.FunctionCallArgumentsDone(
                event_id=place.out.event_id(),
                response_id=place.response_id,
                item_id=self.entry.id,
                output_index=place.output_index,
                call_id=self._call_id,
                name=self._name,
                arguments=self._arguments,
            )
        )
        self._close(
            self.entry.item.model_copy(update={"status": status, "arguments": self._arguments})
        )
