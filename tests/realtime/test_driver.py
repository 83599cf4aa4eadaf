"""The driver with a real session and a real engine of scripted stages, without a socket."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from official_types import check_official
from scripted_engine import scripted_stages

from audio.codecs import get_decoder, get_encoder
from audio.formats import OPUS, AudioFormat
from audio.libopus import OpusUnavailable
from pipeline.engine import Engine
from pipeline.messages import PipelineMessage, Plan, Start, TextDelta
from realtime.config import Config
from realtime.driver import Driver
from realtime.protocol import parse_event
from realtime.service import Service

PATIENCE_S = 20.0
RATE_HZ = 24_000
LONG = "This goes on and on and on. " * 100


class Wire:
    """A client's end: frames in, events out, and everything that was ever received."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.log: list[dict[str, Any]] = []
        self._read = 0
        self._more = asyncio.Event()
        self.driver: Driver

    def take(self, frame: str) -> None:
        self.log.append(json.loads(frame))
        check_official(self.log[-1])
        self._more.set()

    async def send(self, event_type: str, **fields: Any) -> None:
        await self.driver.receive(json.dumps({"type": event_type, **fields}))

    async def wait_for(self, event_type: str) -> dict[str, Any]:
        """The next event of this type; those before it are passed over."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                while self._read < len(self.log):
                    self._read += 1
                    if self.log[self._read - 1]["type"] == event_type:
                        return self.log[self._read - 1]
                self._more.clear()
                await self._more.wait()

    def forget(self) -> None:
        """Begin a new log."""
        self.log.clear()
        self._read = 0

    def types(self) -> list[str]:
        return [event["type"] for event in self.log]

    async def update(self, **session: Any) -> None:
        await self.send("session.update", session={"type": "realtime", **session})
        await self.wait_for("session.updated")

    async def ask(self, text: str = "Say something.", **response: Any) -> None:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)
        await self.send("response.create", response=response)

    async def append(self, samples: np.ndarray[Any, Any], **fields: Any) -> None:
        audio = base64.b64encode(samples.astype("<i2").tobytes()).decode()
        await self.send("input_audio_buffer.append", audio=audio, **fields)


def voice(seconds: float) -> np.ndarray[Any, Any]:
    t = np.arange(int(RATE_HZ * seconds)) / RATE_HZ
    return np.sin(2 * np.pi * 220 * t) * 8000


def silence(seconds: float) -> np.ndarray[Any, Any]:
    return np.zeros(int(RATE_HZ * seconds))


@asynccontextmanager
async def started(config: Config, engine: Engine | None = None) -> AsyncIterator[Service]:
    service = Service(config, engine or Engine(config))
    await service.engine.start()
    try:
        yield service
    finally:
        await service.engine.shutdown()


@asynccontextmanager
async def driving(service: Service, **options: Any) -> AsyncIterator[Wire]:
    """Leaving waits for every task of the connection: one that stays on is a hang."""
    wire = Wire(service)
    async with asyncio.timeout(PATIENCE_S * 2), asyncio.TaskGroup() as tasks:
        with Driver(service, tasks, wire.take, **options) as driver:
            wire.driver = driver
            yield wire


SERVER_VAD = {"input": {"turn_detection": {"type": "server_vad"}}}
"""Turns end by silence alone."""


def talking(config: Config, **thinker: Any) -> Config:
    return config.model_copy(update={"stages": scripted_stages(thinker=thinker)})


async def test_a_spoken_turn_is_heard_answered_and_timed(scripted: Config) -> None:
    config = talking(scripted, text="Hello to you.")
    async with started(config) as service, driving(service) as wire:
        await wire.update(audio=SERVER_VAD)
        for piece in np.split(np.concatenate([silence(0.2), voice(0.6), silence(1.0)]), 18):
            await wire.append(piece)
        await wire.wait_for("input_audio_buffer.speech_started")
        stopped = await wire.wait_for("input_audio_buffer.speech_stopped")
        done = (await wire.wait_for("response.done"))["response"]

    assert 1200 <= stopped["audio_end_ms"] <= 1600
    assert done["status"] == "completed"
    assert done["output"][0]["content"][0]["transcript"] == "Hello to you."
    timings_ms = done["sori"]["timings_ms"]
    in_order = ["voice_end", "turn_end", "transcript", "reply_start", "first_audio_sent", "end"]
    assert [timings_ms[name] for name in in_order] == sorted(timings_ms[n] for n in in_order)
    metrics = service.metrics.render().decode()
    assert 'sori_responses_total{status="completed"} 1.0' in metrics
    assert "sori_first_audio_seconds_count 1.0" in metrics


async def test_text_is_sent_before_the_audio_that_speaks_it_and_the_end_after(
    scripted: Config,
) -> None:
    async with started(talking(scripted, text="One two three.")) as service:
        async with driving(service) as wire:
            await wire.ask()
            await wire.wait_for("response.done")

    types = wire.types()
    text = types.index("response.output_audio_transcript.delta")
    audio = [i for i, name in enumerate(types) if name == "response.output_audio.delta"]
    assert text < audio[0]
    assert audio[-1] < types.index("response.output_audio.done")
    pcm = b"".join(base64.b64decode(wire.log[i]["delta"]) for i in audio)
    assert len(pcm) / 2 / RATE_HZ == pytest.approx(0.05 * len("One two three."), abs=0.05)


async def test_opus_replies_have_one_packet_in_each_delta(scripted: Config) -> None:
    async with started(scripted) as service, driving(service) as wire:
        await wire.update(audio={"output": {"format": {"type": OPUS}}})
        await wire.ask()
        await wire.wait_for("response.done")

    decoder = get_decoder(AudioFormat(OPUS))
    deltas = [e["delta"] for e in wire.log if e["type"] == "response.output_audio.delta"]
    assert len(deltas) > 10
    assert {len(decoder.decode(base64.b64decode(delta))) for delta in deltas} == {480}


async def test_a_microphone_in_opus_is_understood(scripted: Config) -> None:
    packets = get_encoder(AudioFormat(OPUS)).encode(voice(0.5).astype(np.int16))
    async with started(scripted) as service, driving(service) as wire:
        await wire.update(
            audio={"input": {"format": {"type": OPUS}, "turn_detection": None, "transcription": {}}}
        )
        for packet in packets:
            audio = base64.b64encode(packet).decode()
            await wire.send("input_audio_buffer.append", audio=audio)
        await wire.send("input_audio_buffer.commit")
        heard = await wire.wait_for("conversation.item.input_audio_transcription.completed")

    assert heard["transcript"] == "Hello there."
    assert heard["usage"]["seconds"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("frame", "code", "param"),
    [
        ("{", "invalid_json", None),
        ('{"type": "input_audio_buffer.append", "audio": "A"}', "invalid_value", "audio"),
        ('{"type": "input_audio_buffer.append", "audio": "\\u00e9AAA"}', "invalid_value", "audio"),
        ('{"type": "input_audio_buffer.append", "audio": "AAAA"}', "invalid_value", "audio"),
        ('{"type": "input_audio_buffer.append"}', "missing_required_parameter", "audio"),
        ('{"type": "dance"}', "invalid_value", "type"),
    ],
)
async def test_a_bad_frame_is_answered_once_and_changes_nothing(
    scripted: Config, frame: str, code: str, param: str | None
) -> None:
    if frame != "{":
        frame = frame.replace("{", '{"event_id": "mine", ', 1)
    async with started(scripted) as service, driving(service) as wire:
        await wire.update(audio={"input": {"turn_detection": None}})
        await wire.append(silence(0.3))
        before = len(wire.log)
        await wire.driver.receive(frame)
        answers = wire.log[before:]
        await wire.append(silence(0.3))
        await wire.send("input_audio_buffer.commit")
        await wire.wait_for("input_audio_buffer.committed")

    (answer,) = answers
    assert answer["type"] == "error"
    assert (answer["error"]["code"], answer["error"]["param"]) == (code, param)
    assert answer["error"]["event_id"] == (None if frame == "{" else "mine")
    assert f'sori_client_errors_total{{code="{code}"}} 1.0' in service.metrics.render().decode()


async def test_binary_frames_are_refused(scripted: Config) -> None:
    async with started(scripted) as service, driving(service) as wire:
        wire.driver.refuse_binary()
        error = await wire.wait_for("error")

    assert error["error"]["code"] == "invalid_event"


async def test_appends_over_the_limit_are_refused_by_name(scripted: Config) -> None:
    config = scripted.model_copy(update={"max_append_bytes": 4800})
    async with started(config) as service, driving(service) as wire:
        await wire.append(silence(0.1))
        await wire.append(silence(0.11), event_id="big")
        error = (await wire.wait_for("error"))["error"]

    assert (error["param"], error["event_id"]) == ("audio", "big")
    assert "at most 4800 bytes" in error["message"]


async def test_audio_that_was_refused_does_not_shift_what_the_ears_count(scripted: Config) -> None:
    config = scripted.model_copy(update={"max_buffer_s": 2.0})
    async with started(config) as service, driving(service) as wire:
        await wire.update(audio=SERVER_VAD)
        await wire.append(silence(0.5))
        await wire.append(voice(3.0), event_id="much")
        refused = (await wire.wait_for("error"))["error"]
        await wire.append(voice(0.6))
        await wire.append(silence(0.8))
        stopped = await wire.wait_for("input_audio_buffer.speech_stopped")

    assert (refused["code"], refused["event_id"]) == ("input_audio_buffer_full", "much")
    assert stopped["audio_end_ms"] == pytest.approx(1600, abs=150)


async def test_ears_hear_nothing_while_turn_detection_is_off_and_count_on(scripted: Config) -> None:
    async with started(scripted) as service, driving(service) as wire:
        await wire.update(audio={"input": {"turn_detection": None}})
        await wire.append(voice(1.0))
        await wire.send("input_audio_buffer.clear")
        await wire.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
        await wire.append(silence(0.5))
        await wire.append(voice(0.6))
        started_at = await wire.wait_for("input_audio_buffer.speech_started")

    assert wire.types().count("input_audio_buffer.speech_started") == 1
    # 1.5 s of audio before the voice, less 300 ms of prefix padding.
    assert started_at["audio_start_ms"] == pytest.approx(1200, abs=100)


async def test_long_frames_are_parsed_and_decoded_off_the_loop(
    scripted: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def watched(text: str) -> Any:
        threads.append(threading.get_ident())
        return parse_event(text)

    monkeypatch.setattr("realtime.protocol.dialect.parse_event", watched)
    async with started(scripted) as service, driving(service) as wire:
        await wire.append(silence(0.1))
        await wire.append(silence(10.0))

    short, long = threads
    assert short == threading.get_ident()
    assert long != threading.get_ident()


async def test_nothing_of_a_cancelled_reply_is_sent_after_its_done(scripted: Config) -> None:
    async with started(talking(scripted, text=LONG)) as service, driving(service) as wire:
        await wire.ask()
        await wire.wait_for("response.output_audio.delta")
        await wire.send("response.cancel")
        done = (await wire.wait_for("response.done"))["response"]
        assert done["status_details"]["reason"] == "client_cancelled"
        # Another turn takes at least as long as anything stale would.
        await wire.ask(output_modalities=["text"])
        await wire.wait_for("response.done")
        assert service.engine.stats().requests == 0

    late = [e for e in wire.log[wire.types().index("response.done") :] if "delta" in e]
    assert all(event["type"] == "response.output_text.delta" for event in late)


async def test_speech_interrupts_the_reply_and_is_answered(scripted: Config) -> None:
    async with started(talking(scripted, text=LONG)) as service, driving(service) as wire:
        await wire.ask()
        await wire.wait_for("response.output_audio.delta")
        await wire.append(voice(0.6))
        await wire.wait_for("input_audio_buffer.speech_started")
        done = (await wire.wait_for("response.done"))["response"]
        await wire.append(silence(1.0))
        await wire.wait_for("response.created")

    assert done["status_details"]["reason"] == "turn_detected"


async def test_a_closed_session_leaves_no_request_and_no_listener(scripted: Config) -> None:
    async with started(talking(scripted, text=LONG, token_ms=5)) as service:
        async with driving(service) as wire:
            await wire.ask()
            await wire.wait_for("response.output_audio.delta")
        stats = service.engine.stats()

    assert (stats.requests, stats.listeners, stats.synthesis_waiting) == (0, 0, 0)


async def test_a_request_that_is_aborted_before_it_began_leaves_no_trace(scripted: Config) -> None:
    async with started(scripted) as service, driving(service) as wire:
        # Both frames are handled before any task gets its turn.
        await wire.ask()
        await wire.send("response.cancel")
        done = await wire.wait_for("response.done")
        assert service.engine.stats().requests == 0

    assert done["response"]["status"] == "cancelled"


class BrokenEngine(Engine):
    """Gives a word, and then raises."""

    def submit(self, start: Start, *args: Any, **options: Any) -> Any:
        return self._break()

    async def _break(self) -> AsyncIterator[PipelineMessage]:
        yield TextDelta("Well,")
        raise RuntimeError("the engine has a bug")


async def test_an_engine_that_raises_fails_the_reply_once_and_the_session_lives(
    scripted: Config, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(scripted, BrokenEngine(scripted)) as service, driving(service) as wire:
        for _ in range(2):
            await wire.ask()
            done = (await wire.wait_for("response.done"))["response"]
            assert done["status"] == "failed"
            assert done["status_details"]["error"]["code"] == "server_error"
            assert "bug" not in done["status_details"]["error"]["message"]

    assert wire.types().count("response.done") == 2
    assert "the engine has a bug" in caplog.text


@pytest.fixture
def no_libopus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def absent(audio_format: AudioFormat) -> None:
        raise OpusUnavailable("no libopus on this machine")

    monkeypatch.setattr("realtime.transcoding.get_decoder", absent)
    yield


async def test_a_codec_that_is_not_there_is_an_error_of_the_append(
    scripted: Config, no_libopus: None
) -> None:
    async with started(scripted) as service, driving(service) as wire:
        await wire.update(audio={"input": {"format": {"type": OPUS}}})
        await wire.append(silence(0.02))
        error = (await wire.wait_for("error"))["error"]

    assert "no libopus" in error["message"]


async def test_the_playhead_runs_on_after_the_end_and_cuts_what_was_not_heard(
    scripted: Config,
) -> None:
    text = "One two three four five six seven eight nine ten."
    now = 100.0
    config = scripted.model_copy(
        update={"stages": scripted_stages(thinker={"text": text}, talker={"char_ms": 20})}
    )
    engine = WatchedEngine(config)
    async with started(config, engine) as service, driving(service, clock=lambda: now) as wire:
        await wire.update(audio=SERVER_VAD)
        await wire.ask()
        done = await wire.wait_for("response.done")
        assert done["response"]["status"] == "completed"
        now += 0.4  # of 0.98 s
        await wire.append(np.concatenate([voice(0.6), silence(0.9)]))
        await wire.wait_for("response.done")

    (said,) = [item.text for item in engine.replies[-1].items if item.role == "assistant"]
    assert text.startswith(said)
    assert 10 <= len(said) <= 20


async def test_a_cancelled_reply_is_cut_where_its_listener_was(scripted: Config) -> None:
    text = "One two three four five six seven eight nine ten."
    now = 100.0
    config = scripted.model_copy(
        update={"stages": scripted_stages(thinker={"text": text}, talker={"char_ms": 60})}
    )
    engine = WatchedEngine(config)
    async with started(config, engine) as service, driving(service, clock=lambda: now) as wire:
        await wire.update(audio={"input": {"turn_detection": None}})
        await wire.ask()
        sent_s = 0.0
        while sent_s < 1.5:  # of 2.94 s, of which two may be sent before any has been played
            delta = await wire.wait_for("response.output_audio.delta")
            sent_s += len(base64.b64decode(delta["delta"])) / 2 / 24_000
        now += 1.2
        await wire.send("response.cancel")
        assert (await wire.wait_for("response.done"))["response"]["status"] == "cancelled"
        await wire.ask()
        await wire.wait_for("response.created")
        await wire.wait_for("response.output_item.added")

    (said,) = [item.text for item in engine.replies[-1].items if item.role == "assistant"]
    assert said == "One two three four"


class WatchedEngine(Engine):
    """Remembers what it was asked to say."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.replies: list[Start] = []

    def submit(self, start: Start, *args: Any, **options: Any) -> Any:
        if start.plan in (Plan.TEXT, Plan.SPEECH):
            self.replies.append(start)
        return super().submit(start, *args, **options)
