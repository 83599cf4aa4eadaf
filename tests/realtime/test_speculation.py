"""Work on the guess that a pause ends the turn: begun early, never told, dropped if wrong."""

from __future__ import annotations

from pair import Pair

from pipeline.messages import End, Failed, TextDelta
from realtime.commands import Abort, Release, StartReply, Transcribe

TRANSCRIPTION = {"input": {"transcription": {"model": "whisper-1"}}}


def pause(pair: Pair, ms: int = 160) -> None:
    """The user speaks, and falls silent for so long."""
    pair.hear(0.0, 640)
    pair.hear(0.9, 640)
    pair.hear(0.0, ms)


def kinds(events: list[dict[str, object]]) -> list[object]:
    return [event["type"] for event in events]


def test_a_short_pause_starts_the_transcription_and_tells_nobody() -> None:
    pair = Pair()
    pause(pair, 64)
    assert pair.all(Transcribe) == []
    pair.turn_page()
    pair.hear(0.0, 32)
    assert len(pair.all(Transcribe)) == 1
    assert pair.log == []


def test_with_the_words_the_reply_begins_and_is_told_only_at_the_end_of_the_turn() -> None:
    pair = Pair()
    pair.update(audio=TRANSCRIPTION)
    pause(pair)
    pair.turn_page()
    pair.transcribe("Hello", " there")
    guess = pair.last(StartReply)
    assert guess.start.speculative
    assert guess.start.items[-1].text == "Hello there"
    assert pair.log == []
    assert pair.all(Release) == []
    pair.hear(0.0, 480)
    assert kinds(pair.log) == [
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
    ]
    assert pair.all(StartReply) == [guess]
    assert pair.all(Transcribe) == pair.all(Transcribe)[:1]
    assert pair.last(Release).request_id == guess.start.request_id
    assert pair.log[-1]["response"]["id"] == guess.start.request_id
    done = pair.reply(TextDelta("Hi."), 2400, End())[-1]
    assert done["response"]["status"] == "completed"
    pair.check()


def test_words_that_come_after_the_end_of_the_turn_start_an_ordinary_reply() -> None:
    pair = Pair()
    pause(pair, 640)
    assert len(pair.all(Transcribe)) == 1
    pair.transcribe("Hello")
    (command,) = pair.all(StartReply)
    assert not command.start.speculative
    assert pair.all(Release) == []
    pair.answer("Hi.")
    pair.check()


def test_a_turn_that_goes_on_drops_the_guess_and_is_heard_whole() -> None:
    pair = Pair()
    pause(pair)
    first = pair.last(Transcribe)
    pair.transcribe("The first half")
    guess = pair.last(StartReply)
    pair.turn_page()
    pair.hear(0.9, 320)
    aborted = {command.request_id for command in pair.all(Abort)}
    assert aborted == {first.start.request_id, guess.start.request_id}
    assert pair.log == []
    pair.hear(0.0, 640)
    second = pair.last(Transcribe)
    assert len(second.pcm) > len(first.pcm)
    pair.transcribe("The first half and the second.")
    assert pair.last(StartReply).start.items[-1].text == "The first half and the second."
    assert [item.role for item in pair.last(StartReply).start.items] == ["system", "user"]
    assert len(pair.of("input_audio_buffer.committed")) == 1
    pair.answer("Yes.")
    pair.check()


def test_late_words_of_a_dropped_guess_are_nobodys() -> None:
    pair = Pair()
    pause(pair)
    stale = pair.last(Transcribe)
    pair.hear(0.9, 320)
    pair.session.receive_transcript(stale.start.request_id, TextDelta("old"))
    pair.session.receive_transcript(stale.start.request_id, End())
    assert pair.all(StartReply) == []


def test_a_guess_that_no_longer_fits_the_conversation_is_made_anew() -> None:
    pair = Pair()
    pause(pair)
    pair.transcribe("Hello")
    guess = pair.last(StartReply)
    pair.write("By the way, call me Sam.")
    pair.hear(0.0, 480)
    fresh = pair.last(StartReply)
    assert fresh is not guess
    assert guess.start.request_id in {command.request_id for command in pair.all(Abort)}
    assert [item.text for item in fresh.start.items[1:]] == ["By the way, call me Sam.", "Hello"]
    pair.answer("Hi, Sam.")
    pair.check()


def test_changed_instructions_make_the_guess_void() -> None:
    pair = Pair()
    pause(pair)
    pair.transcribe("Hello")
    pair.update(instructions="Be brief.")
    pair.hear(0.0, 480)
    assert pair.last(StartReply).start.items[0].text == "Be brief."
    assert not pair.last(StartReply).start.speculative


def test_without_automatic_replies_only_the_transcription_is_early() -> None:
    pair = Pair()
    pair.update(
        audio={"input": {"turn_detection": {"type": "server_vad", "create_response": False}}}
    )
    pause(pair)
    pair.transcribe("Hello")
    pair.hear(0.0, 480)
    assert pair.all(StartReply) == []
    assert len(pair.of("input_audio_buffer.committed")) == 1
    assert len(pair.all(Transcribe)) == 1


def test_a_turn_that_is_no_longer_to_be_answered_ends_the_guess() -> None:
    pair = Pair()
    pause(pair)
    pair.transcribe("Hello")
    guess = pair.last(StartReply).start.request_id
    pair.update(audio={"input": {"turn_detection": {"create_response": False}}})
    pair.hear(0.0, 480)
    assert pair.of("input_audio_buffer.committed")
    assert Abort(guess) in pair.all(Abort)


def test_a_pause_without_words_starts_nothing() -> None:
    pair = Pair()
    pause(pair)
    pair.transcribe()
    pair.hear(0.0, 480)
    assert pair.all(StartReply) == []
    assert pair.of("response.created") == []


def test_a_failed_guess_is_asked_again_at_the_end_of_the_turn() -> None:
    pair = Pair()
    pause(pair)
    pair.transcribe(failure=Failed("worker_died", "gone"))
    pair.hear(0.0, 160)
    assert len(pair.all(Transcribe)) == 1
    pair.hear(0.0, 320)
    assert len(pair.all(Transcribe)) == 2
    pair.transcribe("Hello")
    pair.answer("Hi.")
    pair.check()


def test_clearing_or_leaving_the_turn_drops_the_guess() -> None:
    for event in (
        {"type": "input_audio_buffer.clear"},
        {
            "type": "session.update",
            "session": {"type": "realtime", "audio": {"input": {"turn_detection": None}}},
        },
    ):
        pair = Pair()
        pause(pair)
        pair.transcribe("Hello")
        pair.send(event)
        assert pair.last(StartReply).start.request_id in {c.request_id for c in pair.all(Abort)}
        assert pair.of("response.created") == []


def test_a_commit_by_the_client_keeps_the_words_and_drops_the_reply() -> None:
    pair = Pair()
    pair.update(audio=TRANSCRIPTION)
    pause(pair)
    pair.transcribe("Hello")
    pair.send({"type": "input_audio_buffer.commit"})
    completed = pair.of("conversation.item.input_audio_transcription.completed")
    assert completed[0]["transcript"] == "Hello"
    assert pair.last(StartReply).start.request_id in {c.request_id for c in pair.all(Abort)}
    assert pair.of("response.created") == []


def test_a_response_that_the_client_asks_for_takes_the_place_of_the_guess() -> None:
    pair = Pair()
    pair.write("What is the time?")
    pause(pair)
    pair.transcribe("Hello")
    guess = pair.last(StartReply)
    pair.send({"type": "response.create"})
    assert guess.start.request_id in {command.request_id for command in pair.all(Abort)}
    assert pair.last(StartReply) is not guess
    pair.answer("Noon.")
    pair.check()


def test_closing_the_session_ends_the_guess() -> None:
    pair = Pair()
    pause(pair)
    pair.transcribe("Hello")
    pair.session.close()
    aborted = {c.request_id for c in pair.session.commands_to_run() if isinstance(c, Abort)}
    assert pair.last(StartReply).start.request_id in aborted
