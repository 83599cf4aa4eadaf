"""Whatever a VoiceBox makes is marked, and only that."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scripted_engine import ask, collect, scripted_engine, scripted_stages

from audio.watermark.embedder import Embedder
from pipeline.config import EngineConfig, WatermarkConfig
from pipeline.errors import StartFailed
from pipeline.messages import Alignment, Audio, End, Plan, Start
from pipeline.stage import Batch, Output, Stage, Work
from pipeline.stages.marked_voicebox import MarkedVoiceBox
from pipeline.watermark_key import watermark_key
from pipeline.watermarking import mark_of

KEY = "a key of these tests"
TEXT = "This is a reply of several words."


class Chunks(Stage):
    """Gives a chunk a step, then ends."""

    def __init__(self, chunks: list[NDArray[np.int16]]) -> None:
        self._chunks = chunks
        self._left: dict[str, list[NDArray[np.int16]]] = {}

    def load(self) -> None:
        pass

    def open(self, start: Start) -> None:
        self._left[start.request_id] = list(self._chunks)

    def step(self, batch: Batch) -> list[Output]:
        outputs = []
        for work in batch:
            left = self._left[work.request_id]
            if left:
                outputs.append(Output(work.request_id, Alignment(((0, 1, 1),))))
                outputs.append(Output(work.request_id, Audio(len(left[0])), left.pop(0)))
            else:
                outputs.append(Output(work.request_id, End()))
        return outputs

    def close(self, request_id: str) -> None:
        self._left.pop(request_id, None)


def run(stage: Stage, steps: int, request_id: str = "one") -> list[Output]:
    return [o for _ in range(steps) for o in stage.step([Work(request_id)])]


def sound(outputs: list[Output]) -> NDArray[np.int16]:
    arrays = [o.array for o in outputs if isinstance(o.message, Audio) and o.array is not None]
    assert all(
        o.message.samples == len(o.array)
        for o in outputs
        if isinstance(o.message, Audio) and o.array is not None
    )
    return np.concatenate(arrays)


def noise(samples: int) -> NDArray[np.int16]:
    return np.random.default_rng(3).integers(-9000, 9000, samples).astype(np.int16)


def test_requests_are_marked_each_for_itself() -> None:
    chunks = [noise(5000), noise(100), noise(7000)]
    stage = MarkedVoiceBox(Chunks(chunks), lambda: Embedder(b"key", 5))
    for request_id in ("one", "two"):
        stage.open(Start(request_id, Plan.SPEECH))
    mixed = [o for _ in range(4) for o in stage.step([Work("one"), Work("two")])]
    embedder = Embedder(b"key", 5)
    whole = np.concatenate([embedder.process(np.concatenate(chunks)), embedder.flush()])
    for request_id in ("one", "two"):
        outputs = [o for o in mixed if o.request_id == request_id]
        assert np.array_equal(sound(outputs), whole)
        assert isinstance(outputs[-1].message, End)
        assert sum(isinstance(o.message, Alignment) for o in outputs) == 3
        stage.close(request_id)


def test_a_reply_without_a_sound_stays_without() -> None:
    stage = MarkedVoiceBox(Chunks([]), lambda: Embedder(b"key", 5))
    stage.open(Start("one", Plan.SPEECH))
    assert [o.message for o in run(stage, 1)] == [End()]


def test_a_chunk_too_short_to_give_anything_is_no_audio() -> None:
    stage = MarkedVoiceBox(Chunks([noise(10), noise(10)]), lambda: Embedder(b"key", 5))
    stage.open(Start("one", Plan.SPEECH))
    outputs = run(stage, 3)
    assert len(sound(outputs)) == 20
    assert sum(isinstance(o.message, Audio) for o in outputs) == 1


async def spoken(**watermark: Any) -> NDArray[np.int16]:
    limits = {"watermark": WatermarkConfig(**watermark)}
    async with scripted_engine("thread", limits, thinker={"text": TEXT}) as engine:
        messages = await collect(engine.submit(ask("one")))
    pcm = b"".join(message.pcm for message in messages if isinstance(message, Audio))
    return np.frombuffer(pcm, np.int16)


async def test_what_the_engine_says_is_marked_unless_that_is_turned_off() -> None:
    plain = await spoken(enabled=False)
    marked = await spoken(key=KEY, payload=7)
    embedder = Embedder(KEY.encode(), 7)
    wanted = np.concatenate([embedder.process(plain), embedder.flush()])
    assert np.array_equal(marked, wanted)
    assert not np.array_equal(marked, plain)


# -- the key ---------------------------------------------------------------------------------------


def config(home: Path, **watermark: Any) -> EngineConfig:
    return EngineConfig(home=home, stages=scripted_stages(), watermark=WatermarkConfig(**watermark))


def test_a_key_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    home = tmp_path / "new"
    first = watermark_key(config(home))
    assert first == watermark_key(config(home))
    assert first != watermark_key(config(tmp_path / "other"))
    assert len(first) == 64
    (kept,) = home.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_the_configured_key_is_used_and_nothing_is_written(tmp_path: Path) -> None:
    assert watermark_key(config(tmp_path, key=KEY)) == KEY.encode()
    assert list(tmp_path.iterdir()) == []


def test_without_a_mark_no_key_is_made(tmp_path: Path) -> None:
    assert mark_of(config(tmp_path, enabled=False)) is None
    assert list(tmp_path.iterdir()) == []


def test_an_empty_key_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "watermark.key").touch()
    with pytest.raises(StartFailed, match=r"watermark\.key is empty"):
        watermark_key(config(tmp_path))


def test_a_key_that_cannot_be_kept_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartFailed, match=r"set watermark\.key"):
        watermark_key(config(tmp_path / "file" / "home"))


def test_servers_that_start_at_once_share_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def another_was_faster(source: Path, target: Path) -> None:
        target.write_text("theirs\n")
        link(source, target)

    monkeypatch.setattr(os, "link", another_was_faster)
    assert watermark_key(config(tmp_path)) == b"theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["watermark.key"]


def test_a_mark_does_not_tell_its_key() -> None:
    mark = mark_of(EngineConfig(watermark=WatermarkConfig(key=KEY, payload=3)))
    assert KEY not in repr(mark)
    assert "payload=3" in repr(mark)
