"""The items of a conversation: their order, what the client sees of them and what the model reads.

The two differ. The client keeps the full text of a reply that was interrupted, the model reads only
the words that were heard; the model reads transcripts that the client did not ask for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.messages import OUTPUT_RATE_HZ
from realtime import errors
from realtime.commands import Picture, Recording
from realtime.kept_audio import KeptAudio
from realtime.picture_limits import PictureLimits
from realtime.protocol.config import AnyFormat
from realtime.protocol.items import (
    AnyItem,
    AssistantContent,
    AssistantMessage,
    FunctionCall,
    FunctionCallOutput,
    InputAudio,
    InputText,
    OutputAudio,
    OutputText,
    UserContent,
    UserMessage,
)

ROOT = "root"


@dataclass(slots=True)
class Spoken:
    """How far a spoken message has come. Samples at 24 kHz, from the start of the reply.

    spans: (char_start, char_end, sample_end) of its words. heard_samples: None for all of it.
    truncated: the client itself has told how much was heard.
    """

    text: str = ""
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    sent_samples: int = 0
    heard_samples: int | None = None
    truncated: bool = False

    def hear(self, audio_end_ms: int) -> int:
        """The client says how much was heard. Returns it, clamped to what is left of the audio."""
        left = self.sent_samples
        if self.truncated and self.heard_samples is not None:
            left = self.heard_samples  # what was cut off does not come back
        self.truncated = True
        left_ms = left * 1000 // OUTPUT_RATE_HZ
        if audio_end_ms >= left_ms:
            self.heard_samples = left
            return left_ms
        self.heard_samples = audio_end_ms * OUTPUT_RATE_HZ // 1000
        return audio_end_ms

    def reckon(self, samples: int) -> None:
        """The server thinks that only this much was heard. The client's own word counts more."""
        if not self.truncated and samples < self.sent_samples:
            self.heard_samples = samples

    def heard_text(self) -> str:
        """The words that were heard whole."""
        heard = self.heard_samples
        if heard is None:
            return self.text
        if self.spans:
            ends = [char_end for _, char_end, sample_end in self.spans if sample_end <= heard]
            return self.text[: max(ends, default=0)].rstrip()
        if not self.sent_samples:
            return ""
        # Without an alignment, by proportion: all but the last word that this reaches.
        reached = len(self.text) * heard // self.sent_samples
        if reached >= len(self.text):
            return self.text
        return self.text[:reached].rpartition(" ")[0].rstrip()


@dataclass(slots=True, eq=False)
class Entry:
    """An item and what only the server knows of it.

    transcripts: of the audio parts by content index; None while it is being made, "" if it failed.
    recordings, pictures: of the parts that the Thinker hears or sees itself.
    """

    item: AnyItem
    transcripts: dict[int, str | None] = field(default_factory=dict)
    recordings: dict[int, Recording] = field(default_factory=dict)
    pictures: dict[int, Picture] = field(default_factory=dict)
    spoken: Spoken | None = None

    @property
    def id(self) -> str:
        """Every item inside the server has one."""
        return self.item.id or ""

    @property
    def pending(self) -> bool:
        """Whether a transcript of it is being made."""
        return None in self.transcripts.values()

    @property
    def ready(self) -> bool:
        """Whether the Thinker can take it: each part can be read or heard."""
        return all(
            text is not None or index in self.recordings for index, text in self.transcripts.items()
        )

    @property
    def wordless(self) -> bool:
        """Whether it is known that there are no words in it."""
        return not self.pending and not self.text()

    @property
    def in_progress(self) -> bool:
        """Whether a reply is still writing it."""
        return self.item.status == "in_progress"

    def snapshot(self) -> AnyItem:
        """The item as the client may see it now: what it has cut itself stays cut."""
        if self.spoken is None or not (self.in_progress or self.spoken.truncated):
            return self.item
        text = self.spoken.heard_text() if self.spoken.truncated else self.spoken.text
        return self.item.model_copy(update={"content": (OutputAudio(transcript=text),)})

    def show_transcript(self, content_index: int, transcript: str) -> None:
        """Write a transcript into the item itself."""
        if isinstance(self.item, UserMessage):
            parts = list(self.item.content)
            parts[content_index] = InputAudio(transcript=transcript)
            self.item = self.item.model_copy(update={"content": tuple(parts)})

    def text(self) -> str:
        """The words of a message, as far as they are known."""
        if self.spoken is not None:
            return self.spoken.heard_text()
        if isinstance(self.item, FunctionCall | FunctionCallOutput):
            return ""
        texts = [self.part_text(index, part) for index, part in enumerate(self.item.content)]
        return "\n".join(text for text in texts if text)

    def part_text(self, index: int, part: object) -> str:
        """The words of one part."""
        match part:
            case InputText(text=text) | OutputText(text=text):
                return text
            case OutputAudio(transcript=transcript):
                return transcript or ""
            case InputAudio():
                return self.transcripts.get(index) or ""
        return ""


class Conversation:
    """Items in order. audio: of those that have some.

    max_heard_s: of recordings for the Thinker; older ones are only read. sight: of pictures; older
    ones are gone.
    """

    def __init__(
        self,
        conversation_id: str,
        audio: KeptAudio,
        max_heard_s: float,
        sight: PictureLimits,
    ) -> None:
        self.id = conversation_id
        self.audio = audio
        self._max_heard_s = max_heard_s
        self._sight = sight
        self._order: list[str] = []
        self._entries: dict[str, Entry] = {}

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return (self._entries[item_id] for item_id in self._order)

    def __len__(self) -> int:
        return len(self._order)

    def get(self, item_id: str) -> Entry | None:
        """The entry with this id, if there is one."""
        return self._entries.get(item_id)

    @property
    def last_id(self) -> str | None:
        """The item at the end."""
        return self._order[-1] if self._order else None

    def previous_id(self, item_id: str) -> str | None:
        """The item before this one, as things are now."""
        place = self._order.index(item_id)
        return self._order[place - 1] if place else None

    def place_after(self, previous_item_id: str | None) -> int:
        """Where an item goes that is to follow this one. Raises ClientError."""
        if not previous_item_id:
            return len(self._order)
        if previous_item_id == ROOT:
            return 0
        if previous_item_id not in self._entries:
            raise errors.no_previous_item(previous_item_id)
        return self._order.index(previous_item_id) + 1

    def insert(self, entry: Entry, place: int | None = None) -> None:
        """Add an entry whose id is free; at the end by default."""
        self._entries[entry.id] = entry
        self._order.insert(len(self._order) if place is None else place, entry.id)

    def forget_old_recordings(self, new: Entry) -> None:
        """Make room for an entry's recordings, in the conversation or about to be."""
        left = self._max_heard_s
        for entry in (new, *(self._entries[item_id] for item_id in reversed(self._order))):
            if entry is new and left < self._max_heard_s:
                continue  # counted already
            left -= sum(recording.seconds for recording in entry.recordings.values())
            if left < 0:
                entry.recordings.clear()

    def forget_old_pictures(self, new: Entry) -> None:
        """Make room for an entry's pictures."""
        if not new.pictures:
            return
        count = pixels = nbytes = 0
        for entry in (new, *(one for one in reversed(tuple(self)) if one is not new)):
            for index, picture in sorted(entry.pictures.items(), reverse=True):
                count += 1
                pixels += picture.height * picture.width
                nbytes += len(picture.url)
                # What goes once all goes that is older: the sums only grow.
                if self._sight.excess(count, pixels, nbytes):
                    del entry.pictures[index]

    def remove(self, item_id: str) -> None:
        """Take an entry out."""
        self.audio.forget(item_id)
        del self._entries[item_id]
        self._order.remove(item_id)

    def shown(self, entry: Entry, encoding: AnyFormat) -> AnyItem:
        """The item with what was kept of its audio and pictures.

        encoding: of the audio that came through the microphone.
        """
        item = entry.snapshot()
        if not isinstance(item, UserMessage | AssistantMessage):
            return item
        spoken = entry.spoken
        heard = spoken.heard_samples if spoken is not None and spoken.truncated else None
        parts: list[UserContent | AssistantContent] = []
        room = self._sight.shown_nbytes
        for index, part in enumerate(item.content):
            if isinstance(part, InputAudio | OutputAudio):
                audio = self.audio.show(entry.id, index, encoding, heard)
                parts.append(part.model_copy(update={"audio": audio}))
            elif index in entry.pictures and len(url := entry.pictures[index].url) <= room:
                room -= len(url)
                parts.append(part.model_copy(update={"image_url": url}))
            else:
                parts.append(part)
        return item.model_copy(update={"content": tuple(parts)})

    def has_call(self, call_id: str) -> bool:
        """Whether a function call with this id is in the conversation."""
        return any(
            isinstance(entry.item, FunctionCall) and entry.item.call_id == call_id for entry in self
        )
