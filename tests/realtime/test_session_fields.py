"""What a session's settings do to its requests, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest
from pair import Pair

from pipeline.messages import End, Failed, Retention, TextDelta, TokenLogprob
from realtime.commands import StartReply, Transcribe


def started(**session: Any) -> StartReply:
    """The request that a typed question makes in a session with these settings."""
    pair = Pair()
    (updated,) = pair.update(**session)
    assert updated["type"] == "session.updated", updated
    pair.write("hello")
    pair.send({"type": "response.create"})
    return pair.last(StartReply)


@pytest.mark.parametrize(
    ("truncation", "retention"),
    [
        ("auto", Retention()),
        ("disabled", Retention(drop=False)),
        ({"type": "retention_ratio", "retention_ratio": 0.5}, Retention(ratio=0.5)),
        (
            {
                "type": "retention_ratio",
                "retention_ratio": 0.5,
                "token_limits": {"post_instructions": 900},
            },
            Retention(ratio=0.5, max_tokens=900),
        ),
    ],
)
def test_truncation_reaches_the_thinker(truncation: Any, retention: Retention) -> None:
    assert started(truncation=truncation).start.retention == retention


def test_a_prompt_too_long_without_truncation_fails_the_response() -> None:
    pair = Pair()
    pair.update(truncation="disabled")
    pair.write("hello")
    pair.send({"type": "response.create"})
    pair.reply(TextDelta(""), Failed("context_length_exceeded", "the prompt has 9000 tokens"))
    (done,) = pair.of("response.done")
    assert done["response"]["status"] == "failed"
    assert done["response"]["status_details"]["error"]["code"] == "context_length_exceeded"


def test_each_key_changes_alone_and_null_clears() -> None:
    pair = Pair()
    transcription = {"model": "whisper-1", "language": "en", "prompt": "Sori"}
    pair.update(audio={"input": {"transcription": transcription}}, instructions="Be brief.")
    (updated,) = pair.update(audio={"input": {"transcription": {"language": "de"}}})
    session = updated["session"]
    assert session["audio"]["input"]["transcription"] == {**transcription, "language": "de"}
    assert session["instructions"] == "Be brief."

    (updated,) = pair.update(audio={"input": {"transcription": None}}, instructions="", tools=[])
    assert updated["session"]["audio"]["input"]["transcription"] is None
    assert updated["session"]["instructions"] == ""


@pytest.mark.parametrize(
    ("key", "value", "param"),
    [
        ("tools", '[{"type": "function", "name": "f", "parameters": {"a": [NaN]}}]', "parameters"),
        ("tools", '[{"type": "function", "name": "f", "parameters": {"a": 1e999}}]', "parameters"),
        ("tracing", '{"metadata": {"a": -Infinity}}', "session.tracing.metadata"),
    ],
)
def test_a_number_that_json_does_not_have_is_refused_not_told_back_as_null(
    key: str, value: str, param: str
) -> None:
    pair = Pair()
    session = f'{{"type": "realtime", "{key}": {value}}}'
    (answer,) = pair.send(f'{{"type": "session.update", "session": {session}}}')
    assert (answer["type"], answer["error"]["code"]) == ("error", "invalid_value")
    assert answer["error"]["param"].endswith(param)


def test_noise_reduction_is_told_back_as_it_was_set() -> None:
    pair = Pair()
    (updated,) = pair.update(audio={"input": {"noise_reduction": {"type": "far_field"}}})
    assert updated["session"]["audio"]["input"]["noise_reduction"] == {"type": "far_field"}
    (updated,) = pair.update(audio={"input": {"noise_reduction": None}})
    assert updated["session"]["audio"]["input"]["noise_reduction"] is None


def test_another_kind_of_turn_detection_starts_from_its_own_defaults() -> None:
    pair = Pair()
    detection = {"type": "semantic_vad", "eagerness": "low", "create_response": False}
    pair.update(audio={"input": {"turn_detection": detection}})
    (updated,) = pair.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
    assert updated["session"]["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
        "idle_timeout_ms": None,
        "create_response": True,
        "interrupt_response": True,
    }


def test_languages_and_keywords_become_the_hints_that_the_transcriber_takes() -> None:
    pair = Pair()
    hints = {"languages": ["de", "en"], "keywords": ["Sori", "Hibari"], "prompt": "A call."}
    pair.update(audio={"input": {"transcription": hints}})
    pair.say("hello")
    start = pair.last(Transcribe).start
    assert (start.language, start.prompt) == ("de", "Sori, Hibari. A call.")


LOGPROBS = "item.input_audio_transcription.logprobs"


def test_log_probabilities_of_the_users_words_are_told_if_asked_for() -> None:
    pair = Pair()
    pair.update(include=[LOGPROBS], audio={"input": {"transcription": {"model": "whisper-1"}}})
    pair.hear(0.9, 640)
    pair.hear(0.0, 640)
    command = pair.last(Transcribe)
    assert command.start.token_logprobs
    tokens = (TokenLogprob("Zo", -0.5), TokenLogprob("ë", -0.25))
    pair.session.receive_transcript(command.start.request_id, TextDelta("Zoë", logprobs=tokens))
    pair.session.receive_transcript(command.start.request_id, End())
    pair.drain()

    (completed,) = pair.of("conversation.item.input_audio_transcription.completed")
    assert completed["logprobs"] == [
        {"token": "Zo", "bytes": [90, 111], "logprob": -0.5},
        {"token": "ë", "bytes": [195, 171], "logprob": -0.25},
    ]

    pair.update(include=None)
    pair.say("hello")
    assert not pair.last(Transcribe).start.token_logprobs
    completed = pair.of("conversation.item.input_audio_transcription.completed")[-1]
    assert "logprobs" not in completed


BLIND = {
    "model": "gpt-realtime-2.1",
    "tracing": "auto",
    "prompt": None,
    "include": None,
    "reasoning": {"effort": "low"},
    "parallel_tool_calls": True,
}
"""Keys that stock clients send without being asked."""


@pytest.mark.parametrize("key", BLIND)
def test_what_stock_clients_always_send_is_accepted(key: str) -> None:
    pair = Pair()
    (answer,) = pair.update(**{key: BLIND[key]})
    assert answer["type"] == "session.updated"
    if key != "model":
        assert answer["session"][key] == BLIND[key]


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"prompt": {"id": "pmpt_1"}}, "session.prompt"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "session.tools[0].type"),
        (
            {"tools": [{"type": "function", "name": "f", "parameters": {"type": "array"}}]},
            "session.tools[0].parameters",
        ),
        ({"voice": "ash"}, "session.voice"),
        ({"temperature": 0.8}, "session.temperature"),
        ({"audio": {"input": {"format": "pcm16"}}}, "session.audio.input.format"),
        ({"tool_choice": {"type": "function", "name": "no"}}, "session.tool_choice"),
        ({"output_modalities": ["text", "audio"]}, "session.output_modalities"),
        ({"max_output_tokens": 5_000}, "session.max_output_tokens"),
    ],
)
def test_what_cannot_be_is_refused_as_a_whole(session: dict[str, Any], param: str) -> None:
    pair = Pair()
    before = pair.session.config
    (answer,) = pair.update(instructions="Changed.", **session)
    assert answer["type"] == "error"
    assert answer["error"]["param"] == param
    assert pair.session.config == before


def test_a_voice_can_change_until_it_has_been_heard() -> None:
    pair = Pair()
    assert pair.update(audio={"output": {"voice": "ash"}})[0]["type"] == "session.updated"
    pair.say("hello")
    pair.answer("Hello.")
    (answer,) = pair.update(audio={"output": {"voice": "cedar"}})
    assert answer["error"]["code"] == "cannot_update_voice"
    assert pair.update(audio={"output": {"voice": "ash"}})[0]["type"] == "session.updated"
