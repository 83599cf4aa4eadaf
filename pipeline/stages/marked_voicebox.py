"""A VoiceBox of any kind, with a mark in all that it makes."""

from __future__ import annotations

from collections.abc import Callable

from audio.watermark.embedder import Watermark
from pipeline.messages import Audio, End, Start
from pipeline.stage import Batch, Output, Stage


class MarkedVoiceBox(Stage):
    """Marks every Audio of another stage, each request in a stream of its own.

    A mark holds back up to 20 ms, which come with the next chunk or before the End; the reply keeps
    its length. make_watermark: called for each request.
    """

    def __init__(self, voicebox: Stage, make_watermark: Callable[[], Watermark]) -> None:
        self._voicebox = voicebox
        self._make_watermark = make_watermark
        self._streams: dict[str, Watermark] = {}
        # A class attribute of the stage interface, which follows the stage within.
        self.batched = voicebox.batched  # type: ignore[misc]

    def load(self) -> None:
        """Load the stage, and mark a moment of silence."""
        self._voicebox.wake = self.wake
        self._voicebox.load()
        self._make_watermark().flush()

    def open(self, start: Start) -> None:
        """Begin a reply."""
        self._voicebox.open(start)
        self._streams[start.request_id] = self._make_watermark()

    def close(self, request_id: str) -> None:
        """Drop a reply."""
        self._streams.pop(request_id, None)
        self._voicebox.close(request_id)

    def step(self, batch: Batch) -> list[Output]:
        """What the stage makes, marked."""
        return [marked for output in self._voicebox.step(batch) for marked in self._mark(output)]

    def _mark(self, output: Output) -> list[Output]:
        stream = self._streams[output.request_id]
        if isinstance(output.message, Audio):
            assert output.array is not None
            samples = stream.process(output.array)
            return [Output(output.request_id, Audio(len(samples)), samples)] if len(samples) else []
        if isinstance(output.message, End):
            rest = stream.flush()
            if len(rest):
                return [Output(output.request_id, Audio(len(rest)), rest), output]
        return [output]
