"""What a Session asks its driver to do: values, so that the Session stays free of I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.messages import INPUT_RATE_HZ, Start


@dataclass(frozen=True, slots=True)
class Recording:
    """A part of an item as it was said, for a Thinker that hears. data: as in `Transcribe`.

    Two are the same if they are the same part: a guess knows less of the silence after it than the
    turn that it becomes.
    """

    item_id: str
    content_index: int
    data: bytes = field(compare=False)
    format: str = field(compare=False)
    rate_hz: int = field(compare=False)
    seconds: float = field(compare=False)


@dataclass(frozen=True, slots=True)
class Picture:
    """A part of an item for a Thinker that sees. url: as the client sent it; height, width: pixels.

    Two are the same if they are the same part.
    """

    item_id: str
    content_index: int
    url: str = field(compare=False, repr=False)
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class Transcribe:
    """Run the Transcriber over an utterance and give back its messages under `start.request_id`.

    pcm: 16 kHz mono int16, little endian, unless `format` and `rate_hz` say otherwise: audio that
    came inside an item is as the client encoded it, and is decoded and resampled by the driver.
    """

    start: Start
    pcm: bytes
    format: str = "audio/pcm"
    rate_hz: int = INPUT_RATE_HZ


@dataclass(frozen=True, slots=True)
class Judge:
    """Have the turn detector say whether an utterance sounds finished.

    pcm: 16 kHz mono int16, little endian.
    """

    start: Start
    pcm: bytes


@dataclass(frozen=True, slots=True)
class StartReply:
    """Run the cascade. `start.generation` tags everything that comes back.

    A speculative one gives nothing back until it is released.
    format: wire name of the audio format the reply is encoded in; rate_hz: its sample rate.
    recordings: one for each RECORDING in the texts of the items, in order; their lengths are not in
    the items yet.
    pictures: one for each PICTURE, likewise; their sizes are in the items.
    """

    start: Start
    format: str
    rate_hz: int
    recordings: tuple[Recording, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """What a speculative reply has made, and what it makes from now on, is wanted."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Give nothing more of this reply until it is resumed or aborted; its playback stands still."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with a paused reply where its listener stopped."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop a request and drop whatever of it is still queued. Unknown ids are ignored."""

    request_id: str


@dataclass(frozen=True, slots=True)
class ResetEars:
    """Forget the VAD's state: what comes next is unrelated to what came before."""


@dataclass(frozen=True, slots=True)
class SetInputFormat:
    """Decode the microphone's bytes differently from the next append on."""

    format: str
    rate_hz: int


Command = (
    Transcribe | Judge | StartReply | Release | Pause | Resume | Abort | ResetEars | SetInputFormat
)
