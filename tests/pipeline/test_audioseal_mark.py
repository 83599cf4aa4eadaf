"""AudioSeal's mark, with a stand-in for its package: its weights are not in the package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.config import EngineConfig, WatermarkConfig
from pipeline.stages.audioseal_mark import (
    BLOCK,
    CONTEXT,
    AudioSealMark,
    load_generator,
)
from pipeline.watermarking import mark_of, watermark_factory
from realtime.marking import MarkingError, detect, embed

Floats = NDArray[np.float32]


def causal(sound: Floats) -> Floats:
    """A watermark that depends on the 200 samples before."""
    return (np.convolve(sound, np.ones(200) / 800)[: len(sound)]).astype(np.float32)


def voice(samples: int) -> NDArray[np.int16]:
    at = np.arange(samples) / 24_000
    wave = 9000 * np.sin(2 * np.pi * 200 * at) * np.sin(2 * np.pi * at)
    return np.asarray(np.rint(wave), np.int16)


def run(sound: NDArray[np.int16], piece: int) -> tuple[NDArray[np.int16], int]:
    """(all that comes out, most samples held back)."""
    mark = AudioSealMark(causal)
    given, taken, held, parts = 0, 0, 0, []
    for begin in range(0, len(sound), piece):
        parts.append(mark.process(sound[begin : begin + piece]))
        given += len(parts[-1])
        taken += len(sound[begin : begin + piece])
        held = max(held, taken - given)
    return np.concatenate([*parts, mark.flush()]), held


def test_output_keeps_its_length_and_does_not_depend_on_the_pieces() -> None:
    sound = voice(70_001)
    whole, _ = run(sound, len(sound))
    assert len(whole) == len(sound)
    assert not np.array_equal(whole, sound)
    for piece in (37, 4800, 24_000):
        cut, held = run(sound, piece)
        assert np.array_equal(cut, whole)
        assert held <= 9600 + piece


def test_the_watermark_lies_where_the_sound_is() -> None:
    """Resampled there and back, it is off by 0.2 ms at most."""
    steps = np.random.default_rng(1).integers(-6000, 6000, 60_000)
    sound = np.convolve(steps, np.ones(8) / 8, "same").astype(np.int16)
    mark = AudioSealMark(lambda heard: heard * np.float32(0.5))
    added = np.concatenate([mark.process(sound), mark.flush()]) - sound.astype(float)
    fits = {lag: float(np.dot(np.roll(added, -lag), sound)) for lag in range(-40, 41)}
    lag = max(fits, key=fits.__getitem__)
    assert abs(lag) <= 4
    assert 0.4 < fits[lag] / float(np.dot(sound.astype(float), sound)) < 0.55


def test_each_block_comes_with_a_bounded_past() -> None:
    lengths: list[int] = []

    def generator(heard: Floats) -> Floats:
        lengths.append(len(heard))
        return np.zeros_like(heard)

    mark = AudioSealMark(generator)
    mark.process(voice(72_000))
    assert lengths[:2] == [BLOCK, 2 * BLOCK]
    assert max(lengths) == CONTEXT + BLOCK


def test_a_stream_without_a_sample_and_a_short_one() -> None:
    assert len(AudioSealMark(causal).flush()) == 0
    mark = AudioSealMark(causal)
    assert len(mark.process(voice(50))) + len(mark.flush()) == 50


class Loader:
    """The package's loader. Without weights it fails as the true one does."""

    asked: Any = None

    @classmethod
    def load_generator(cls, card: str, nbits: int) -> Any:
        if card == "missing.pth":
            raise RuntimeError("Path or uri missing.pth is unknown or does not exist")
        cls.asked = (card, nbits)
        return cls()

    def eval(self) -> None:
        pass

    def get_watermark(self, sound: Any, message: Any) -> Any:
        type(self).asked = message.tolist()
        return sound * 0.5


class Tensor(np.ndarray[Any, Any]):
    """What of torch's is used."""

    def numpy(self) -> Any:
        return np.asarray(self)


class Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(
        tensor=lambda values: np.array(values),
        from_numpy=lambda array: array.view(Tensor),
        inference_mode=Nothing,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "audioseal", SimpleNamespace(AudioSeal=Loader))


def test_the_payload_is_the_message_and_no_key_is_made(package: None, tmp_path: Any) -> None:
    wish = WatermarkConfig(backend="audioseal", payload=5)
    mark = mark_of(EngineConfig(home=tmp_path, watermark=wish))
    assert mark is not None
    assert list(tmp_path.iterdir()) == []
    factory = watermark_factory(mark)
    assert Loader.asked == ("audioseal_wm_streaming", 16)
    factory().process(voice(24_000))
    assert Loader.asked == [[0] * 13 + [1, 0, 1]]


def test_missing_weights_are_named(package: None) -> None:
    with pytest.raises(RuntimeError, match=r"watermark\.weights.*missing\.pth.*cannot be loaded"):
        load_generator("missing.pth", 0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: None) -> None:
    monkeypatch.setitem(sys.modules, "audioseal", None)
    with pytest.raises(ImportError, match="pip install audioseal, or set backend: sori"):
        load_generator("", 0)


def test_the_command_says_that_it_reads_only_soris_marks(tmp_path: Path) -> None:
    config = EngineConfig(watermark=WatermarkConfig(backend="audioseal"))
    with pytest.raises(MarkingError, match=r"set watermark\.backend to sori"):
        detect(config, tmp_path / "any.wav", 1e-6)
    with pytest.raises(MarkingError, match=r"set watermark\.backend to sori"):
        embed(config, tmp_path / "any.wav", tmp_path / "out.wav")
