"""The sound of a conversation's items, for clients that ask for an item again.

Within two limits: of a long item only the beginning is kept, and of a long session only the last
items. Opus is not kept: a part holds one string, in which packets could not be told apart.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from audio.formats import AudioFormat
from pipeline.messages import OUTPUT_RATE_HZ
from realtime.protocol.config import AnyFormat, Opus, Pcm, rate_of
from realtime.transcoding import encode_whole

PCM_WIDTH = 2


@dataclass(slots=True)
class _Sound:
    encoding: AnyFormat
    data: bytearray = field(default_factory=bytearray)


class KeptAudio:
    """Sounds by item and part. item_bytes: of one part; total_bytes: of all together."""

    def __init__(self, item_bytes: int, total_bytes: int) -> None:
        self._item_bytes = item_bytes
        self._total_bytes = total_bytes
        self._held = 0
        self._sounds: dict[tuple[str, int], _Sound] = {}

    def keep(
        self, item_id: str, content_index: int, encoding: AnyFormat, pieces: Iterable[bytes]
    ) -> None:
        """More of a part's sound; what is beyond the limits is dropped, the oldest items first."""
        if isinstance(encoding, Opus):
            return
        sound = self._sounds.setdefault((item_id, content_index), _Sound(encoding))
        for piece in pieces:
            room = self._item_bytes - len(sound.data)
            kept = piece[: room - room % PCM_WIDTH]
            sound.data += kept
            self._held += len(kept)
        while self._held > self._total_bytes:
            self._drop(next(iter(self._sounds)))

    def forget(self, item_id: str) -> None:
        """An item is gone."""
        for key in [key for key in self._sounds if key[0] == item_id]:
            self._drop(key)

    def _drop(self, key: tuple[str, int]) -> None:
        self._held -= len(self._sounds.pop(key).data)

    def show(
        self,
        item_id: str,
        content_index: int,
        encoding: AnyFormat,
        heard_samples: int | None = None,
    ) -> str | None:
        """Base64 of a part, or None if there is nothing.

        encoding: for what came through the microphone; replies are shown as they were sent.
        heard_samples: only so much of it, at 24 kHz.
        """
        sound = self._sounds.get((item_id, content_index))
        if sound is None or not sound.data or isinstance(encoding, Opus):
            return None
        data = bytes(sound.data)
        if sound.encoding == AS_HEARD and encoding != AS_HEARD:
            wanted = AudioFormat(encoding.type, rate_of(encoding))
            width = PCM_WIDTH if isinstance(encoding, Pcm) else 1
            room = self._item_bytes // width * rate_of(AS_HEARD) // rate_of(encoding)
            samples = np.frombuffer(data, "<i2")[:room]
            data = encode_whole(samples, rate_of(AS_HEARD), wanted)
        elif heard_samples is not None:
            width = PCM_WIDTH if isinstance(sound.encoding, Pcm) else 1
            data = data[: heard_samples * rate_of(sound.encoding) // OUTPUT_RATE_HZ * width]
        return base64.b64encode(data).decode("ascii")


AS_HEARD = Pcm(rate=16_000)
"""How the microphone's audio lies in the session."""
