"""A Thinker that hears: its reply waits for no transcript, but a turn without words gets none."""

from __future__ import annotations

import base64

from pair import Pair

from pipeline.messages import PICTURE, RECORDING, End, Failed, PromptItem, TextDelta, Usage
from realtime.commands import Abort, Recording, Release, StartReply, Transcribe

NO_DETECTION = {"input": {"turn_detection": None}}
TRANSCRIPTION = {"input": {"transcription": {"model": "whisper-1"}}}


def hearing_pair(max_heard_s: float = 120.0) -> Pair:
    return Pair(max_heard_s=max_heard_s)


def pause(pair: Pair, ms: int = 160) -> None:
    """The user speaks, and falls silent for so long."""
    pair.hear(0.0, 640)
    pair.hear(0.9, 640)
    pair.hear(0.0, ms)


def user_texts(command: StartReply) -> list[str]:
    return [item.text for item in command.start.items if item.role == "user"]


def test_the_reply_begins_with_the_recording_while_the_words_are_looked_for() -> None:
    pair = hearing_pair()
    pause(pair)
    guess = pair.last(StartReply)
    assert guess.start.speculative
    assert user_texts(guess) == [RECORDING]
    assert guess.start.items[-1] == PromptItem("user", RECORDING)  # lengths come with decoding
    (recording,) = guess.recordings
    assert recording.data == pair.last(Transcribe).pcm
    assert (recording.format, recording.rate_hz) == ("audio/pcm", 16_000)
    pair.transcribe("Hello there.")
    pair.hear(0.0, 640)
    assert pair.all(StartReply) == [guess]
    assert pair.last(Release).request_id == guess.start.request_id
    done = pair.reply(TextDelta("Hi."), 2400, End(usage=Usage(30, 2, audio_tokens=13)))[-1]
    assert done["response"]["usage"]["input_token_details"]["audio_tokens"] == 13
    assert done["response"]["usage"]["input_token_details"]["text_tokens"] == 17
    pair.check()


def test_sound_without_words_is_not_answered() -> None:
    pair = hearing_pair()
    pause(pair)
    guess = pair.last(StartReply)
    pair.transcribe("")
    pair.hear(0.0, 1500)
    assert Abort(guess.start.request_id) in pair.all(Abort)
    assert pair.all(StartReply) == [guess]
    assert pair.of("response.created") == []
    pair.check()


def test_where_the_transcriber_fails_the_thinker_is_believed() -> None:
    pair = hearing_pair()
    pause(pair)
    pair.transcribe(failure=Failed("worker_died", "gone"))
    pair.hear(0.0, 1500)
    assert len(pair.all(Transcribe)) == 2  # asked once more with the turn's end
    pair.transcribe(failure=Failed("worker_died", "gone"))
    pair.answer("Hello to you.")
    assert pair.log[-1]["response"]["status"] == "completed"
    pair.check()


def test_a_commit_of_the_clients_is_answered_without_a_transcript() -> None:
    pair = hearing_pair()
    pair.update(audio=NO_DETECTION)
    pair.append(16_000)
    pair.send({"type": "input_audio_buffer.commit"})
    pair.send({"type": "response.create"})
    command = pair.last(StartReply)
    assert not command.start.speculative
    assert [one.seconds for one in command.recordings] == [1.0]
    pair.answer("Yes.")
    assert pair.of("response.done")
    pair.transcribe("What?")  # nobody waited for it
    pair.check()


def test_a_second_turn_before_the_words_of_the_first_is_answered_with_both() -> None:
    pair = hearing_pair()
    detection = {"type": "server_vad", "silence_duration_ms": 64}
    pair.update(audio={"input": {"turn_detection": detection}})
    pair.hear(0.0, 640)
    pair.hear(0.9, 640)
    pair.hear(0.0, 96)  # over before there was a guess
    first_words = pair.last(Transcribe).start.request_id
    first = pair.last(StartReply)
    assert first.start.speculative
    assert len(first.recordings) == 1
    pair.hear(0.9, 640)
    pair.session.receive_transcript(first_words, TextDelta("One"))
    pair.session.receive_transcript(first_words, End())
    pair.hear(0.0, 96)
    pair.transcribe("Two")
    assert Abort(first.start.request_id) in pair.all(Abort)
    both = pair.last(StartReply)
    assert user_texts(both) == [RECORDING, RECORDING]
    pair.answer("One and two.")
    assert len(pair.of("response.created")) == 1
    pair.check()


def test_what_was_said_long_ago_is_read() -> None:
    pair = hearing_pair(max_heard_s=2.5)
    for words in ("First.", "Second.", "Third."):
        pair.say(words)
        pair.answer("Yes.")
    command = pair.last(StartReply)
    assert user_texts(command)[0] == "First."
    assert user_texts(command)[-1] == RECORDING
    assert sum(one.seconds for one in command.recordings) <= 2.5
    pair.check()


def test_recordings_of_the_clients_own_keep_their_format_and_place() -> None:
    pair = hearing_pair()
    pair.update(audio=NO_DETECTION)
    pcm = bytes(4800)
    parts = [
        {"type": "input_text", "text": f"What is {RECORDING}this?"},
        {"type": "input_audio", "audio": base64.b64encode(pcm).decode()},
        {"type": "input_text", "text": "And then?"},
    ]
    item = {"type": "message", "role": "user", "content": parts}
    pair.send({"type": "conversation.item.create", "item": item})
    pair.send({"type": "response.create"})
    command = pair.last(StartReply)
    assert user_texts(command) == [f"What is this?\n{RECORDING}\nAnd then?"]
    (recording,) = command.recordings
    item_id = pair.of("conversation.item.done")[-1]["item"]["id"]
    assert recording == Recording(item_id, 1, pcm, "audio/pcm", 24_000, 0.1)
    assert (recording.data, recording.rate_hz) == (pcm, 24_000)
    pair.check()


def test_nobody_types_a_picture_or_a_recording() -> None:
    pair = hearing_pair()
    pair.update(audio=NO_DETECTION, instructions=f"Be{PICTURE} kind.{RECORDING}")
    parts = [{"type": "input_text", "text": f"What{PICTURE} is{RECORDING} it?"}]
    item = {"type": "message", "role": "user", "content": parts}
    pair.send({"type": "conversation.item.create", "item": item})
    pair.send({"type": "response.create"})
    command = pair.last(StartReply)
    assert [item.text for item in command.start.items] == ["Be kind.", "What is it?"]
    pair.check()


def test_a_reply_beside_the_conversation_hears_what_it_brings_along() -> None:
    pair = hearing_pair()
    audio = {"type": "input_audio", "audio": base64.b64encode(bytes(4800)).decode()}
    item = {"type": "message", "role": "user", "content": [audio]}
    pair.send({"type": "response.create", "response": {"conversation": "none", "input": [item]}})
    assert len(pair.last(StartReply).recordings) == 1
    pair.check()


def test_a_thinker_that_does_not_hear_gets_no_recordings() -> None:
    pair = Pair()
    pair.say("Hello.")
    command = pair.last(StartReply)
    assert command.recordings == ()
    assert user_texts(command) == ["Hello."]
    pair.check()
