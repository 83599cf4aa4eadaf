"""Speech during a reply: an interruption, or nothing that was meant for it."""

from __future__ import annotations

from typing import Any

import pytest
from pair import Pair

from pipeline.messages import Alignment, End, Failed, TextDelta
from realtime.commands import Abort, Pause, Resume, StartReply
from realtime.interruption import BACKCHANNELS, is_backchannel, is_echo
from realtime.invented import is_invented, is_stock_phrase

SAID = "Sure. The capital of France is Paris, and it lies on the Seine."


@pytest.mark.parametrize("text", ["Mhm.", "Mm-hmm", "Uh-huh, uh-huh.", "hmm", "Mm, mm hmm."])
def test_listeners_noises_are_no_interruption(text: str) -> None:
    assert is_backchannel(text, BACKCHANNELS)


@pytest.mark.parametrize("text", ["", "Stop.", "Mhm, but why?", "No.", "Hamm", "uh"])
def test_words_are_one(text: str) -> None:
    assert not is_backchannel(text, BACKCHANNELS)


@pytest.mark.parametrize(
    "heard",
    ["The capital of France is Paris", "capital of France his Paris", "lies on the Seine.", SAID],
)
def test_what_sori_is_saying_is_its_echo(heard: str) -> None:
    assert is_echo(heard, SAID)


@pytest.mark.parametrize(
    "heard",
    ["Paris", "What about Germany?", "No, the river", "stop", "", "Paris is of capital the"],
)
def test_what_the_user_says_is_not(heard: str) -> None:
    assert not is_echo(heard, SAID)
    assert not is_echo(heard, "")


def test_echo_does_not_reach_far_back() -> None:
    assert not is_echo("The capital of France", SAID + " and so on" * 40)


@pytest.mark.parametrize(
    ("text", "no_speech", "logprob", "invented"),
    [
        ("You", 0.76, -1.28, True),
        ("I'm gonna go to the end of the video.", 0.7, -1.72, True),
        ("Thank you.", 0.5, -0.4, True),
        ("Thank you.", 0.05, -0.4, False),
        (".", 0.0, 0.0, True),
        ("", 0.0, 0.0, True),
        ("Seven of clubs", 0.3, -0.54, False),
        ("Seven of clubs", 0.9, -0.5, False),
    ],
)
def test_words_made_of_nothing(text: str, no_speech: float, logprob: float, invented: bool) -> None:
    meta = {"no_speech_prob": no_speech, "avg_logprob": logprob}
    assert is_invented(text, meta) is invented


def test_a_transcriber_that_tells_nothing_is_believed() -> None:
    assert not is_invented("Thank you.", {})
    assert is_stock_phrase("Thanks for watching!")
    assert not is_stock_phrase("Thanks for the tip about watching birds")


# -- through a Session -----------------------------------------------------------------------------


def replying(keeps_buffer: bool = True, pair: Pair | None = None, **detection: Any) -> Pair:
    """A reply is being spoken."""
    pair = pair or Pair()
    output = {"keeps_buffer": True} if keeps_buffer else {}
    turn_detection = {"type": "semantic_vad", **detection}
    pair.update(
        audio={
            "input": {"turn_detection": turn_detection, "transcription": {"model": "whisper-1"}},
            "output": output,
        }
    )
    pair.write("What is the capital of France?")
    pair.send({"type": "response.create"})
    pair.reply(TextDelta(SAID), Alignment(((0, 5, 12_000),)), 24_000)
    pair.turn_page()
    return pair


def kinds(pair: Pair) -> list[str]:
    return [event["type"] for event in pair.log]


STARTED = "input_audio_buffer.speech_started"
STOPPED = "input_audio_buffer.speech_stopped"
DISMISSED = "sori.speech_dismissed"


def cough(pair: Pair) -> None:
    pair.hear(0.9, 160)
    pair.hear(0.0, 96)


def test_a_cough_pauses_the_reply_and_lets_it_go_on() -> None:
    pair = replying()
    cough(pair)
    assert kinds(pair) == [STARTED]
    reply_id = pair.last(StartReply).start.request_id
    assert pair.last(Pause).request_id == reply_id
    pair.transcribe()
    assert kinds(pair) == [STARTED, STOPPED, DISMISSED]
    assert {event["item_id"] for event in pair.log} == {pair.log[0]["item_id"]}
    assert pair.last(Resume).request_id == reply_id
    pair.turn_page()
    (done,) = [e["response"] for e in pair.reply(24_000, End()) if e["type"] == "response.done"]
    assert done["status"] == "completed"
    assert len(pair.session.conversation) == 2  # as if nothing had happened
    pair.check()


def test_a_paused_reply_says_nothing() -> None:
    pair = replying()
    pair.hear(0.9, 160)
    pair.turn_page()
    assert pair.reply(TextDelta(" More."), 2_400, End()) == []


@pytest.mark.parametrize("words", ["Mhm.", "The capital of France is"])
def test_a_listeners_noise_or_an_echo_lets_it_go_on_too(words: str) -> None:
    pair = replying()
    cough(pair)
    pair.transcribe(words)
    assert kinds(pair) == [STARTED, STOPPED, DISMISSED]
    assert pair.all(Resume)


@pytest.mark.parametrize(("words", "interrupts"), [("Right, right.", False), ("Mhm.", True)])
def test_what_does_not_interrupt_is_the_operators_choice(words: str, interrupts: bool) -> None:
    pair = replying(pair=Pair(backchannels=("right",)))
    cough(pair)
    pair.transcribe(words)
    assert (DISMISSED not in kinds(pair)) == interrupts


def test_words_end_the_reply() -> None:
    pair = replying()
    cough(pair)
    pair.transcribe("Stop it.")
    (done,) = pair.of("response.done")
    assert done["response"]["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert pair.all(Resume) == []
    pair.prepare()
    pair.hear(0.0, 320)
    assert kinds(pair)[-2:] == [
        "conversation.item.input_audio_transcription.completed",
        "response.created",
    ]
    pair.check()


def test_long_speech_ends_the_reply_before_its_words_are_known() -> None:
    pair = replying()
    pair.hear(0.9, 448)
    assert kinds(pair) == [STARTED]
    pair.hear(0.9, 96)
    assert "response.done" in kinds(pair)


def test_how_long_is_the_sessions_choice() -> None:
    pair = replying(interrupt_confirm_ms=1000)
    pair.hear(0.9, 640)
    assert kinds(pair) == [STARTED]
    pair.hear(0.9, 416)
    assert "response.done" in kinds(pair)


def test_the_clients_cancel_or_truncate_ends_a_paused_reply() -> None:
    pair = replying()
    pair.hear(0.9, 160)
    pair.send({"type": "response.cancel"})
    (done,) = pair.of("response.done")
    assert done["response"]["status_details"]["reason"] == "client_cancelled"
    assert pair.all(Abort)

    pair = replying()
    pair.hear(0.9, 160)
    item_id = list(pair.session.conversation)[-1].id
    pair.send(
        {
            "type": "conversation.item.truncate",
            "item_id": item_id,
            "content_index": 0,
            "audio_end_ms": 300,
        }
    )
    (done,) = pair.of("response.done")
    assert done["response"]["status_details"]["reason"] == "turn_detected"
    pair.hear(0.0, 96)
    pair.transcribe()
    assert pair.all(Resume) == []
    pair.check()


def test_other_clients_lose_the_reply_at_once() -> None:
    pair = replying(keeps_buffer=False)
    pair.hear(0.9, 96)
    assert "response.done" in kinds(pair)
    assert pair.all(Pause) == []


def test_a_reply_that_fails_while_it_is_paused_ends_once() -> None:
    pair = replying()
    pair.hear(0.9, 160)
    pair.reply(Failed("server_error", "broken"))
    (done,) = pair.of("response.done")
    assert done["response"]["status"] == "failed"
    pair.hear(0.0, 96)
    pair.transcribe()
    pair.check()


def test_a_cleared_buffer_lets_it_go_on() -> None:
    pair = replying()
    pair.hear(0.9, 160)
    pair.send({"type": "input_audio_buffer.clear"})
    assert pair.all(Resume)
    pair.reply(End())
    pair.check()


def test_turn_detection_switched_off_lets_it_go_on() -> None:
    pair = replying()
    pair.hear(0.9, 160)
    pair.update(audio={"input": {"turn_detection": None}})
    assert pair.all(Resume)
    pair.reply(End())
    pair.check()


def test_mhm_after_the_reply_is_an_answer() -> None:
    pair = replying()
    pair.reply(End())
    pair.turn_page()
    cough(pair)
    pair.transcribe("Mhm.")
    assert DISMISSED not in kinds(pair)
    pair.prepare()
    pair.hear(0.0, 1024)
    assert "input_audio_buffer.committed" in kinds(pair)


def test_an_echo_gets_no_answer_from_other_clients_sessions_either() -> None:
    pair = replying(keeps_buffer=False)
    pair.hear(0.9, 320)
    pair.hear(0.0, 1024)
    pair.transcribe("The capital of France is Paris")
    pair.hear(0.0, 1024)
    assert "response.created" not in kinds(pair)
    (completed,) = pair.of("conversation.item.input_audio_transcription.completed")
    assert completed["transcript"] == ""
    pair.check()
