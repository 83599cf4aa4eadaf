"""The order of events in whole exchanges, as the live service has it."""

from __future__ import annotations

import base64

import pytest
from pair import Pair, kinds

from pipeline.messages import Alignment, End, Failed, Plan, TextDelta, ToolCallDelta
from realtime.commands import Abort, StartReply, Transcribe

TURN = [
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "conversation.item.added",
    "conversation.item.done",
]
SPOKEN_OPENING = [
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
]
SPOKEN_CLOSING = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
]


def test_a_spoken_turn_is_answered_in_speech() -> None:
    pair = Pair()
    pair.update(audio={"input": {"transcription": {"model": "whisper-1", "language": "en"}}})
    pair.turn_page()

    pair.say("what is the capital of France")
    pair.answer("It is Paris.")

    assert kinds(pair.log) == [
        *TURN,
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
        *SPOKEN_OPENING,
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        *SPOKEN_CLOSING,
    ]
    user_id = pair.of("input_audio_buffer.speech_started")[0]["item_id"]
    assert pair.of("input_audio_buffer.speech_stopped")[0]["item_id"] == user_id
    assert pair.of("input_audio_buffer.committed")[0]["item_id"] == user_id
    added, reply_added = pair.of("conversation.item.added")
    assert added["item"]["id"] == user_id
    assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    assert (reply_added["previous_item_id"], reply_added["item"]["content"]) == (user_id, [])
    done = pair.of("response.done")[0]["response"]
    assert done["status"] == "completed"
    assert done["output"][0]["content"] == [{"type": "output_audio", "transcript": "It is Paris."}]
    assert done["usage"]["output_token_details"] == {"text_tokens": 3, "audio_tokens": 20}
    assert done["usage"]["total_tokens"] == 33
    pair.check()


def test_times_count_received_audio_and_include_padding_and_silence() -> None:
    pair = Pair()
    pair.update(
        audio={
            "input": {
                "turn_detection": {
                    "type": "server_vad",
                    "prefix_padding_ms": 100,
                    "silence_duration_ms": 320,
                }
            }
        }
    )
    pair.hear(0.0, 960)
    pair.hear(0.9, 640)
    pair.hear(0.0, 640)

    assert pair.of("input_audio_buffer.speech_started")[0]["audio_start_ms"] == 860
    assert pair.of("input_audio_buffer.speech_stopped")[0]["audio_end_ms"] == 1920
    # Transcribed from the first 96 ms of the pause on.
    assert len(pair.last(Transcribe).pcm) == (1920 - 320 + 96 - 860) * 16 * 2


def test_the_transcriber_hears_with_the_hints_of_the_session() -> None:
    pair = Pair()
    pair.update(audio={"input": {"transcription": {"language": "de", "prompt": "Sori"}}})
    pair.say("hallo")

    start = pair.last(Transcribe).start
    assert (start.plan, start.language, start.prompt) == (Plan.TRANSCRIBE, "de", "Sori")


def test_without_transcription_the_model_hears_and_the_client_is_not_told() -> None:
    pair = Pair()
    pair.say("hello")

    assert kinds(pair.log) == ["session.created", *TURN, "response.created"]
    assert [item.text for item in pair.last(StartReply).start.items] == ["Be kind.", "hello"]


def test_nothing_comes_of_a_turn_without_words() -> None:
    pair = Pair()
    pair.say("  ")

    assert pair.of("response.created") == []
    assert pair.all(StartReply) == []


def test_a_turn_that_cannot_be_transcribed_fails_its_response() -> None:
    pair = Pair()
    pair.update(audio={"input": {"transcription": {"model": "whisper-1"}}})
    pair.hear(0.9, 640)
    pair.hear(0.0, 640)
    events = pair.transcribe(failure=Failed("worker_died", "The transcriber stopped."))

    assert kinds(events) == [
        "conversation.item.input_audio_transcription.failed",
        "response.created",
        "response.done",
    ]
    assert events[0]["error"]["code"] == "worker_died"
    response = events[-1]["response"]
    assert (response["status"], response["output"]) == ("failed", [])
    assert response["status_details"]["error"]["code"] == "worker_died"
    assert pair.all(StartReply) == []
    pair.check()


def test_text_is_answered_in_text() -> None:
    pair = Pair()
    pair.update(output_modalities=["text"])
    pair.turn_page()
    pair.write("hi")
    pair.send({"type": "response.create"})
    pair.reply(TextDelta("Good "), TextDelta("day."), End())

    assert kinds(pair.log) == [
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]
    assert pair.last(StartReply).start.plan is Plan.TEXT
    assert pair.of("response.content_part.added")[0]["part"] == {"type": "text", "text": ""}
    assert pair.of("response.output_item.done")[0]["item"]["content"] == [
        {"type": "output_text", "text": "Good day."}
    ]
    pair.check()


def test_a_client_commits_its_own_turns() -> None:
    pair = Pair()
    pair.update(audio={"input": {"turn_detection": None}})
    assert not pair.session.listening
    pair.turn_page()
    pair.append(16_000)
    pair.send({"type": "input_audio_buffer.commit"})
    created = pair.send({"type": "response.create"})

    assert kinds(pair.log) == [*TURN[2:], "response.created"]
    assert kinds(created) == ["response.created"]
    assert pair.all(StartReply) == []  # it waits for the words
    pair.transcribe("hello")
    assert pair.last(StartReply).start.items[-1].text == "hello"
    assert len(pair.last(Transcribe).pcm) == 32_000


def test_a_commit_during_speech_takes_the_announced_id_and_the_turn_does_not_stop() -> None:
    pair = Pair()
    pair.hear(0.0, 960)
    pair.hear(0.9, 640)
    events = pair.send({"type": "input_audio_buffer.commit"})
    rest = pair.hear(0.0, 960)

    announced = pair.of("input_audio_buffer.speech_started")[0]["item_id"]
    assert events[0]["item_id"] == announced
    assert rest == []


def test_speech_interrupts_the_reply_and_the_model_remembers_what_was_heard() -> None:
    pair = Pair()
    pair.say("count")
    pair.reply(
        TextDelta("One"),
        TextDelta(" two"),
        TextDelta(" three"),
        Alignment(((0, 3, 8_000), (4, 7, 16_000))),
        16_000,
    )
    before = len(pair.log)
    running = pair.last(StartReply)
    pair.hear(0.9, 640)

    assert kinds(pair.log[before:]) == ["input_audio_buffer.speech_started", *SPOKEN_CLOSING]
    response = pair.log[-1]["response"]
    assert response["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert response["output"][0]["status"] == "incomplete"
    assert response["output"][0]["content"][0]["transcript"] == "One two three"
    assert pair.last(Abort).request_id == running.start.request_id
    assert pair.reply_to(running, TextDelta(" four"), 4_000, End()) == []

    item_id = response["output"][0]["id"]
    truncated = pair.send(
        {
            "type": "conversation.item.truncate",
            "item_id": item_id,
            "content_index": 0,
            "audio_end_ms": 500,
        }
    )
    assert truncated[0]["audio_end_ms"] == 500
    pair.hear(0.0, 640)
    pair.transcribe("stop")
    said = [(item.role, item.text) for item in pair.last(StartReply).start.items[1:]]
    assert said == [("user", "count"), ("assistant", "One"), ("user", "stop")]
    pair.check()


def test_without_a_truncate_the_model_remembers_what_was_sent() -> None:
    pair = Pair()
    pair.say("count")
    spans = ((0, 3, 8_000), (4, 7, 16_000))
    pair.reply(TextDelta("One two three"), Alignment(spans), 16_000)
    pair.say("stop")

    assert [item.text for item in pair.last(StartReply).start.items[2:]] == ["One two", "stop"]


def test_a_session_may_forbid_interruption() -> None:
    pair = Pair()
    detection = {"type": "server_vad", "interrupt_response": False}
    pair.update(audio={"input": {"turn_detection": detection}})
    pair.say("count")
    pair.reply(TextDelta("One"), 2_400)
    events = pair.hear(0.9, 640)

    assert kinds(events) == ["input_audio_buffer.speech_started"]
    assert kinds(pair.reply(TextDelta(" two"), End()))[-1] == "response.done"


def test_a_session_may_answer_only_when_asked() -> None:
    pair = Pair()
    detection = {"type": "server_vad", "create_response": False}
    pair.update(audio={"input": {"turn_detection": detection}})
    pair.say("hello")

    assert pair.of("response.created") == []
    assert kinds(pair.send({"type": "response.create"})) == ["response.created"]
    assert pair.last(StartReply).start.items[-1].text == "hello"


def test_a_user_who_goes_on_is_answered_once_for_all_that_was_said() -> None:
    pair = Pair()
    pair.hear(0.9, 640)
    pair.hear(0.0, 640)
    first = pair.last(Transcribe).start.request_id
    pair.hear(0.9, 640)
    pair.session.receive_transcript(first, TextDelta("tell me"))
    pair.session.receive_transcript(first, End())
    assert pair.hear(0.0, 96) == []  # still speaking, as far as anyone knows
    pair.hear(0.0, 640)
    pair.transcribe("a joke")

    assert len(pair.of("response.created")) == 1
    assert [item.text for item in pair.last(StartReply).start.items[1:]] == ["tell me", "a joke"]


def test_a_cough_after_a_question_does_not_cost_the_answer() -> None:
    pair = Pair()
    pair.hear(0.9, 640)
    pair.hear(0.0, 640)
    pair.hear(0.9, 96)
    pair.transcribe("how are you")
    pair.hear(0.0, 640)
    events = pair.transcribe("")

    assert len(pair.of("response.created")) == 1
    assert events == [] or kinds(events) == ["response.created"]
    assert [item.text for item in pair.last(StartReply).start.items[1:]] == ["how are you"]


def test_a_function_is_called_and_its_output_is_read() -> None:
    pair = Pair()
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    pair.update(tools=[tool], tool_choice="required")
    pair.write("weather in Seoul?")
    pair.send({"type": "response.create"})
    start = pair.last(StartReply).start
    assert (start.tools[0].name, start.tool_choice) == ("weather", "required")
    pair.turn_page()
    pair.reply(
        ToolCallDelta("call_1", "weather", '{"city":'),
        ToolCallDelta("call_1", "", '"Seoul"}'),
        End("tool_calls"),
    )

    assert kinds(pair.log) == [
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]
    added = pair.of("conversation.item.added")[0]["item"]
    assert (added["call_id"], added["name"], added["arguments"]) == ("call_1", "weather", "")
    done = pair.of("response.function_call_arguments.done")[0]
    assert (done["name"], done["arguments"]) == ("weather", '{"city":"Seoul"}')
    output = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}
    assert kinds(pair.send({"type": "conversation.item.create", "item": output})) == TURN[3:]
    pair.send({"type": "response.create"})
    *_, call, result = pair.last(StartReply).start.items
    assert (call.role, call.tool_calls[0].arguments) == ("assistant", '{"city":"Seoul"}')
    assert (result.role, result.text, result.call_id) == ("tool", "sunny", "call_1")
    pair.check()


def test_an_output_may_come_while_its_response_still_runs() -> None:
    pair = Pair()
    pair.write("weather?")
    pair.send({"type": "response.create"})
    pair.reply(TextDelta("Let me see."), ToolCallDelta("call_1", "weather", "{}"))
    output = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}

    assert kinds(pair.send({"type": "conversation.item.create", "item": output})) == TURN[3:]
    done = pair.reply(End())[-1]["response"]
    assert [item["type"] for item in done["output"]] == ["message", "function_call"]
    pair.check()


def test_a_response_beside_the_conversation_leaves_it_alone() -> None:
    pair = Pair()
    pair.write("Bonjour", id="item_greeting")
    pair.send({"type": "response.create"})
    main = pair.last(StartReply)
    pair.turn_page()
    pair.send(
        {
            "type": "response.create",
            "response": {
                "conversation": "none",
                "metadata": {"topic": "language"},
                "output_modalities": ["text"],
                "instructions": "Name the language.",
                "input": [
                    {"type": "item_reference", "id": "item_greeting"},
                    {
                        "type": "message",
                        "role": "system",
                        "content": [{"type": "input_text", "text": "One word."}],
                    },
                ],
            },
        }
    )
    pair.reply(TextDelta("French"), End())

    assert kinds(pair.log) == [
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]
    created = pair.log[0]["response"]
    assert (created["conversation_id"], created["metadata"]) == (None, {"topic": "language"})
    asked = [(item.role, item.text) for item in pair.last(StartReply).start.items]
    assert asked == [
        ("system", "Name the language."),
        ("user", "Bonjour"),
        ("system", "One word."),
    ]
    assert kinds(pair.reply_to(main, TextDelta("Hello"), End()))[-1] == "response.done"
    assert len(pair.session.conversation) == 2
    pair.check()


def test_speech_does_not_interrupt_what_runs_beside_the_conversation() -> None:
    pair = Pair()
    pair.send({"type": "response.create", "response": {"conversation": "none", "input": []}})
    pair.hear(0.9, 640)

    assert pair.of("response.done") == []
    assert pair.last(StartReply).start.items[0].text == "Be kind."


def test_audio_inside_an_item_is_transcribed_before_the_answer() -> None:
    pair = Pair()
    audio = base64.b64encode(bytes(48_000)).decode()
    content = [{"type": "input_text", "text": "Listen:"}, {"type": "input_audio", "audio": audio}]
    item = {"type": "message", "role": "user", "content": content}
    added = pair.send({"type": "conversation.item.create", "item": item})[0]
    assert added["item"]["content"][1] == {"type": "input_audio", "transcript": None}
    command = pair.last(Transcribe)
    assert (command.format, command.rate_hz, len(command.pcm)) == ("audio/pcm", 24_000, 48_000)
    pair.send({"type": "response.create"})
    assert pair.all(StartReply) == []
    pair.transcribe("hello")

    assert pair.last(StartReply).start.items[-1].text == "Listen:\nhello"


@pytest.mark.parametrize("name", ["audio/pcmu", "audio/pcma", "audio/opus"])
def test_a_reply_is_in_the_format_that_was_asked_for(name: str) -> None:
    pair = Pair()
    updated = pair.update(audio={"output": {"format": {"type": name}}})
    assert updated[0]["session"]["audio"]["output"]["format"] == {"type": name}
    pair.say("hello")

    assert pair.last(StartReply).format == name
    assert pair.last(StartReply).rate_hz == {"audio/opus": 24_000}.get(name, 8_000)
    created = pair.of("response.created")[0]["response"]
    assert created["audio"]["output"]["format"] == {"type": name}
