"""A turn that nothing ends: it is taken when it has lasted long enough, and the next follows."""

from __future__ import annotations

import pytest
from pair import Event, Pair

from realtime.commands import StartReply, Transcribe
from realtime.protocol.config import Audio, AudioInput, SemanticVad, ServerVad, SessionConfig
from realtime.turn_end import LONGEST_WAIT_FOR_PAUSE_MS, is_too_long

LIMIT_MS = 4_000
WINDOW_MS = 32
PADDING_MS = 300


def pair_with(detection: ServerVad | SemanticVad) -> Pair:
    audio = Audio(input=AudioInput(turn_detection=detection))
    return Pair(config=SessionConfig(audio=audio), max_turn_s=LIMIT_MS / 1000)


def of_type(pair: Pair, name: str) -> list[Event]:
    return [event for event in pair.log if event["type"] == f"input_audio_buffer.{name}"]


@pytest.mark.parametrize("detection", [ServerVad(), SemanticVad(), SemanticVad(eagerness="low")])
def test_a_turn_that_is_too_long_ends_in_its_next_pause(
    detection: ServerVad | SemanticVad,
) -> None:
    pair = pair_with(detection)
    pair.hear(0.9, LIMIT_MS + 500)
    assert of_type(pair, "speech_stopped") == []
    pair.hear(0.0, 3 * WINDOW_MS)
    (stopped,) = of_type(pair, "speech_stopped")
    assert stopped["audio_end_ms"] == pytest.approx(LIMIT_MS + 500 + 3 * WINDOW_MS, abs=WINDOW_MS)
    assert [event["item_id"] for event in of_type(pair, "committed")] == [stopped["item_id"]]
    pair.transcribe("a very long story")
    assert len(pair.all(StartReply)) == 1


def test_short_pauses_before_the_limit_do_not_end_it() -> None:
    pair = pair_with(ServerVad())
    for _ in range(LIMIT_MS // 1000 - 1):
        pair.hear(0.9, 800)
        pair.hear(0.0, 128)
    assert of_type(pair, "speech_stopped") == []


def test_a_voice_that_never_rests_is_cut_and_no_audio_is_lost_or_doubled() -> None:
    pair = pair_with(SemanticVad())
    pair.hear(0.9, 3 * (LIMIT_MS + LONGEST_WAIT_FOR_PAUSE_MS))
    started, stopped = of_type(pair, "speech_started"), of_type(pair, "speech_stopped")
    assert len(stopped) >= 2
    for end, start in zip(stopped, started[1:], strict=False):
        # The next turn is known some windows later, and its padding reaches back to the cut.
        assert start["audio_start_ms"] == end["audio_end_ms"]
    lengths_ms = [
        end["audio_end_ms"] - start["audio_start_ms"]
        for start, end in zip(started, stopped, strict=False)
    ]
    taken_ms = [len(command.pcm) / 32 for command in pair.all(Transcribe)]
    assert taken_ms[: len(lengths_ms)] == pytest.approx(lengths_ms, abs=1)
    assert max(lengths_ms) <= LIMIT_MS + LONGEST_WAIT_FOR_PAUSE_MS + PADDING_MS + WINDOW_MS


@pytest.mark.parametrize(
    ("turn_ms", "paused", "too_long"),
    [
        (LIMIT_MS - 1, True, False),
        (LIMIT_MS, True, True),
        (LIMIT_MS, False, False),
        (LIMIT_MS + LONGEST_WAIT_FOR_PAUSE_MS - 1, False, False),
        (LIMIT_MS + LONGEST_WAIT_FOR_PAUSE_MS, False, True),
    ],
)
def test_only_a_turn_without_pauses_is_waited_for(
    turn_ms: int, paused: bool, too_long: bool
) -> None:
    assert is_too_long(turn_ms, LIMIT_MS, paused=paused) is too_long
