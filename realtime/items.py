"""The client's dealings with items: create, retrieve, delete, truncate."""

from __future__ import annotations

from collections.abc import Iterator

from realtime import errors
from realtime.conversation import ROOT, Conversation, Entry
from realtime.hearing import Hearing
from realtime.item_intake import take_in
from realtime.outgoing import Outgoing
from realtime.protocol import client, server
from realtime.protocol.config import SessionConfig
from realtime.protocol.items import AssistantMessage
from realtime.replies import Replies


def say_added(out: Outgoing, conversation: Conversation, entry: Entry) -> None:
    """Tell of an item that is whole from the start."""
    previous_id = conversation.previous_id(entry.id)
    for event in (server.ItemAdded, server.ItemDone):
        out.say(event(event_id=out.event_id(), previous_item_id=previous_id, item=entry.item))


class Items:
    """All methods raise ClientError, with nothing changed."""

    def __init__(
        self, out: Outgoing, conversation: Conversation, hearing: Hearing, replies: Replies
    ) -> None:
        self._out = out
        self._conversation = conversation
        self._hearing = hearing
        self._replies = replies

    def create(
        self,
        config: SessionConfig,
        event: client.ConversationItemCreate,
        *,
        taken: bool,
        sizes: Iterator[tuple[int, int]] | None,
    ) -> None:
        """An item of the client's. taken: its id belongs to a turn that is not committed yet.

        sizes: of its pictures, as `take_in` has them.
        """
        encoding = config.audio.input.format
        conversation = self._conversation
        wanted_id = event.item.id
        if wanted_id == ROOT:
            raise errors.reserved_item(ROOT)
        if wanted_id is not None and (taken or wanted_id in conversation):
            raise errors.duplicate_item(wanted_id)
        place = conversation.place_after(event.previous_item_id)
        entry, audio = take_in(
            event.item, "item", encoding, self._out.new_id, conversation.has_call, sizes
        )
        conversation.insert(entry, place)
        say_added(self._out, conversation, entry)
        for part in audio:
            conversation.audio.keep(entry.id, part.content_index, encoding, [part.data])
            self._hearing.begin(
                entry,
                part.content_index,
                part.data,
                part.seconds,
                config.audio.input.transcription,
                encoding,
                logprobs=bool(config.include),
            )
        conversation.forget_old_recordings(entry)
        conversation.forget_old_pictures(entry)

    def retrieve(self, config: SessionConfig, event: client.ConversationItemRetrieve) -> None:
        """An item as it is now, with its audio if that was kept."""
        entry = self._require("retrieve", event.item_id)
        item = self._conversation.shown(entry, config.audio.input.format)
        self._out.say(server.ItemRetrieved(event_id=self._out.event_id(), item=item))

    def delete(self, event: client.ConversationItemDelete) -> None:
        """Forget an item, and what is under way about it."""
        entry = self._require("delete", event.item_id)
        self._conversation.remove(entry.id)
        self._out.say(server.ItemDeleted(event_id=self._out.event_id(), item_id=entry.id))
        self._hearing.forget(entry)
        self._replies.forget(entry)

    def truncate(self, event: client.ConversationItemTruncate) -> Entry:
        """Only so much of a reply was heard. Returns its entry."""
        entry = self._require("truncate", event.item_id)
        if not isinstance(entry.item, AssistantMessage):
            raise errors.not_truncatable()
        if event.content_index != 0:
            raise errors.no_such_content(event.content_index)
        if entry.spoken is not None:
            # Clients count what they played and overshoot by a little: that is no error.
            audio_end_ms = entry.spoken.hear(event.audio_end_ms)
        elif event.audio_end_ms == 0:
            audio_end_ms = 0  # it has no audio of which to hear more
        else:
            raise errors.not_truncatable()
        self._out.say(
            server.ItemTruncated(
                event_id=self._out.event_id(),
                item_id=entry.id,
                content_index=0,
                audio_end_ms=audio_end_ms,
            )
        )
        return entry

    def _require(self, verb: str, item_id: str) -> Entry:
        entry = self._conversation.get(item_id)
        if entry is None:
            raise errors.no_such_item(verb, item_id)
        return entry
