"""The demo page in a real Chromium, with a recording for a microphone, against a real server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, WebSocket, expect, sync_playwright
from servers import Serve
from speech_scoring import recordings, word_error_rate

from bench.server import Server

pytestmark = [pytest.mark.browser, pytest.mark.models, pytest.mark.timeout(240)]

MICROPHONE_HZ = 48_000
AUDIBLE = 10 ** (-50 / 20)
LONG_REPLY = " ".join(f"This is sentence number {n}, and it goes on." for n in range(1, 13))
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]


def humming(seconds: float = 0.35) -> NDArray[np.float32]:
    """What a listener says: "mm"."""
    t = np.arange(int(seconds * MICROPHONE_HZ)) / MICROPHONE_HZ
    phase = 2 * np.pi * np.cumsum(130 + 10 * np.sin(2 * np.pi * 3 * t)) / MICROPHONE_HZ
    tone = sum(np.sin(h * phase) / h for h in range(1, 4))
    return (0.25 * tone * np.hanning(len(t))).astype(np.float32)


def recorded(path: Path, *parts: float | str | NDArray[np.float32]) -> Path:
    """A microphone's recording: seconds of silence, names of clips and samples, in order."""
    clips = {recording.name: recording.samples for recording in recordings()}
    pieces: list[NDArray[np.float32]] = []
    for part in parts:
        if isinstance(part, str):
            speech = clips[f"{part}.wav"].astype(np.float32) / 32768
            pieces.append(soxr.resample(speech, 16_000, MICROPHONE_HZ))
        elif isinstance(part, np.ndarray):
            pieces.append(part)
        else:
            pieces.append(np.zeros(int(part * MICROPHONE_HZ), np.float32))
    soundfile.write(path, np.concatenate(pieces), MICROPHONE_HZ, subtype="PCM_16")
    return path


@dataclass
class Visit:
    """A page that is open, and what its socket has sent."""

    page: Page
    sent: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def watch(self, socket: WebSocket) -> None:
        socket.on("framesent", lambda frame: self.sent.append(str(frame)))

    def played(self) -> tuple[NDArray[np.float32], int]:
        """What the loudspeaker got so far, and its rate."""
        tap: dict[str, Any] = self.page.evaluate("window.sori.played()")
        return np.asarray(tap["samples"], np.float32), int(tap["rateHz"])

    def wait_for_state(self, state: str, timeout_s: float = 30) -> None:
        self.page.wait_for_selector(f'body[data-state="{state}"]', timeout=timeout_s * 1000)


@pytest.fixture
def browse(tmp_path: Path) -> Iterator[Any]:
    """Open the page of a server with a recording as its microphone."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "chromium is missing: run tests/prepare.sh"
    browsers: list[Browser] = []
    with sync_playwright() as playwright:

        def open_page(server: Server, microphone: Path) -> Visit:
            browser = playwright.chromium.launch(
                executable_path=path,
                args=[*FLAGS, f"--use-file-for-fake-audio-capture={microphone}%noloop"],
            )
            browsers.append(browser)
            page = browser.new_page()
            visit = Visit(page)
            page.on("websocket", visit.watch)
            page.on("pageerror", lambda error: visit.problems.append(str(error)))
            page.goto(f"{server.url}/?tap")
            return visit

        yield open_page
        for browser in browsers:
            browser.close()


def test_speech_is_answered_by_speech(model_server: Server, browse: Any, tmp_path: Path) -> None:
    visit = browse(model_server, recorded(tmp_path / "mic.wav", 1.0, "go_forward", 30.0))
    visit.page.click("#talk")
    visit.wait_for_state("speaking")
    visit.wait_for_state("listening")
    user = visit.page.locator("#transcript .user").inner_text()
    assert word_error_rate(["go forward ten meters"], [user]) == 0
    assert len(visit.page.locator("#transcript .assistant").inner_text().split()) > 2
    samples, rate_hz = visit.played()
    loud = np.abs(samples) > AUDIBLE
    assert loud.sum() > 0.3 * rate_hz
    assert int(visit.page.locator("#latency-last").inner_text()) > 0
    assert visit.page.locator("#latency-legend li").count() == 5
    assert not visit.page.locator("#problem").is_visible()
    assert visit.problems == []


def test_speaking_interrupts_the_reply(serve: Serve, browse: Any, tmp_path: Path) -> None:
    thinker = {"kind": "scripted_thinker", "options": {"text": LONG_REPLY}}
    server = serve({"stages": {"thinker": thinker}})
    microphone = recorded(tmp_path / "mic.wav", 1.0, "go_forward", 5.0, "cards_005", 30.0)
    visit = browse(server, microphone)
    visit.page.click("#talk")
    visit.wait_for_state("speaking")
    visit.wait_for_state("hearing")
    expect(visit.page.locator("#transcript .assistant.cut")).to_have_count(1)
    truncates = [frame for frame in visit.sent if "conversation.item.truncate" in frame]
    assert len(truncates) == 1
    assert '"audio_end_ms":0' not in truncates[0]
    visit.wait_for_state("speaking")
    # Nothing of the first reply sounded while the second question was asked, for over 3 s.
    samples, rate_hz = visit.played()
    loud = np.flatnonzero(np.abs(samples) > AUDIBLE)
    assert np.diff(loud).max() > 2 * rate_hz
    assert visit.page.locator("#transcript .user").count() == 2
    assert visit.page.locator("#transcript .assistant").count() == 2
    visit.page.click("#stop")
    visit.wait_for_state("idle")
    assert visit.problems == []


def test_a_listeners_noise_only_pauses_the_reply(serve: Serve, browse: Any, tmp_path: Path) -> None:
    thinker = {"kind": "scripted_thinker", "options": {"text": LONG_REPLY[:200]}}
    server = serve({"stages": {"thinker": thinker}})
    microphone = recorded(tmp_path / "mic.wav", 1.0, "go_forward", 5.0, humming(), 60.0)
    visit = browse(server, microphone)
    visit.page.click("#talk")
    visit.wait_for_state("speaking")
    visit.wait_for_state("hearing")
    visit.wait_for_state("speaking")
    visit.wait_for_state("listening")
    assert visit.page.locator("#transcript .user").count() == 1
    assert visit.page.locator("#transcript .assistant").count() == 1
    assert visit.page.locator("#transcript .cut").count() == 0
    assert not [frame for frame in visit.sent if "conversation.item.truncate" in frame]
    assert visit.problems == []


def test_typed_words_are_answered_too(model_server: Server, browse: Any, tmp_path: Path) -> None:
    visit = browse(model_server, recorded(tmp_path / "mic.wav", 30.0))
    visit.page.fill("#text", "What is the capital of France?")
    visit.page.press("#text", "Enter")
    visit.wait_for_state("speaking")
    expect(visit.page.locator("#transcript .assistant")).to_contain_text("Paris")
    assert visit.problems == []


def test_a_server_that_is_gone_is_explained(serve: Serve, browse: Any, tmp_path: Path) -> None:
    server = serve({"stages": {"thinker": {"kind": "scripted_thinker"}}})
    visit = browse(server, recorded(tmp_path / "mic.wav", 30.0))
    server.process.kill()
    visit.page.click("#talk")
    visit.wait_for_state("error")
    expect(visit.page.locator("#problem-text")).to_contain_text("cannot be reached")
