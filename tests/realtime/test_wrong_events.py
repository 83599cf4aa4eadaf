"""What is wrong with an event is told by one error, and changes nothing."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from pair import Pair
from wrong_events import examples, mistakes

from realtime.protocol import ClientEvent, InputAudioBufferAppend, parse_event
from realtime.protocol.parsing import has_more_values
from realtime.session import Session

EVENTS = get_args(ClientEvent)


def state(session: Session) -> Any:
    """All of a session that a client can change."""
    items = [(entry.item, dict(entry.transcripts), entry.spoken) for entry in session.conversation]
    return session.config, items, session.sounding_response


@pytest.mark.parametrize("model", EVENTS)
def test_every_mistake_is_named_by_code_and_parameter_and_changes_nothing(model: Any) -> None:
    pair = Pair()
    pair.write("hello", id="item_text")
    before, commands, count = state(pair.session), len(pair.commands), 0
    for mistake in mistakes(model):
        count += 1
        (answer,) = pair.send(mistake.event)
        assert answer["type"] == "error", mistake
        error = answer["error"]
        assert error["type"] == "invalid_request_error"
        assert error["code"] in {
            "invalid_type",
            "invalid_value",
            "missing_required_parameter",
            "unknown_parameter",
            "invalid_event",
        }, mistake
        assert (error["param"], error["event_id"]) == (mistake.param, mistake.event_id), mistake
        assert error["message"]
    assert count >= 10
    assert state(pair.session) == before
    assert len(pair.commands) == commands


@pytest.mark.parametrize("model", EVENTS)
def test_every_right_event_is_understood(model: Any) -> None:
    for event in examples(model):
        assert isinstance(parse_event(event), model)
        if model is InputAudioBufferAppend:
            continue
        answers = [answer for answer in Pair().send(event) if answer["type"] == "error"]
        assert len(answers) <= 1
        for answer in answers:  # of items and responses that are not there
            assert answer["error"]["event_id"] == "mine"


def session(**keys: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": {"type": "realtime", **keys}}


LONG = "long " * 120_000
WIDE = "long " * 2_000
MESSAGE = {"type": "message", "role": "user", "content": []}


@pytest.mark.parametrize(
    ("event", "param", "message"),
    [
        (session(type=7), "session.type", "Supported values are: 'realtime' or 'transcription'."),
        (
            session(max_output_tokens=1.5),
            "session.max_output_tokens",
            "Invalid value: 1.5. Supported values are: 'inf' or an integer.",
        ),
        (
            session(tool_choice=None),
            "session.tool_choice",
            "Supported values are: 'auto', 'none' or 'required' or an object.",
        ),
        (
            session(audio={"output": {"voice": ""}}),
            "session.audio.output.voice",
            "a string of at least 1 characters is expected, but it has 0.",
        ),
        (
            session(audio={"input": {"turn_detection": {"type": None}}}),
            "session.audio.input.turn_detection.type",
            "Invalid value: null. Supported values are: 'server_vad' and 'semantic_vad'.",
        ),
        (
            {"type": "conversation.item.create", "item": {**MESSAGE, "id": "root"}},
            "item.id",
            "stands for the front of the conversation",
        ),
        (session(**{WIDE: 1}), None, "Unknown parameter: 'session.long long"),
        ({"type": LONG}, "type", "Invalid value: 'long long"),
        (session(tool_choice={"type": "function", "name": WIDE}), "session.tool_choice", "long"),
        (session(instructions=LONG), "session", "too long to be told back"),
        (
            {
                "type": "conversation.item.create",
                "item": {**MESSAGE, "content": [{"type": "input_text", "text": LONG}]},
            },
            "item",
            "too long to be told back",
        ),
    ],
)
def test_the_message_says_what_was_expected_and_is_never_long(
    event: dict[str, Any], param: str | None, message: str
) -> None:
    pair = Pair()
    before = state(pair.session)
    (answer,) = pair.send({**event, "event_id": "mine"})
    error = answer["error"]
    assert message in error["message"]
    assert (error["event_id"], error["code"]) == (
        "mine",
        "unknown_parameter" if param is None else "invalid_value",
    )
    assert param in (None, error["param"])
    assert len(json.dumps(answer)) < 3_000
    assert state(pair.session) == before


def test_long_audio_and_long_contexts_are_not_told_back_and_so_not_too_long() -> None:
    content = [{"type": "input_audio", "audio": "AAAA" * 150_000}]
    create = {"type": "conversation.item.create", "item": {**MESSAGE, "content": content}}
    context = [{**MESSAGE, "content": [{"type": "input_text", "text": LONG}]}]
    respond = {"type": "response.create", "response": {"input": context}}
    for event in (create, respond):
        assert not [one for one in Pair().send(event) if one["type"] == "error"]


@pytest.mark.parametrize(
    ("frame", "code", "param"),
    [
        ("", "invalid_json", None),
        ("{", "invalid_json", None),
        ("[]", "invalid_event", None),
        ("null", "invalid_event", None),
        ("NaN", "invalid_event", None),
        ("{}", "invalid_event", "type"),
        ('{"type": null}', "invalid_type", "type"),
        ('{"type": "session.uppdate"}', "invalid_value", "type"),
        (
            '{"type": "session.update", "session": {"type": "realtime", "audio": {}}',
            "invalid_json",
            None,
        ),
        ('{"type": "\\ud800"}', "invalid_json", None),
        ("[" * 10_000, "invalid_json", None),
        (b"\x00\xff", "invalid_event", None),
        ("[" + "0," * 20_000 + "0]", "invalid_event", None),
        ('{"type": "response.create", ' + '"",' * 20_000, "invalid_event", None),
    ],
)
def test_frames_that_are_no_events(frame: str | bytes, code: str, param: str | None) -> None:
    pair = Pair()
    (answer,) = pair.send(frame)
    assert (answer["error"]["code"], answer["error"]["param"]) == (code, param)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0", 1),
        ('{"a": [1, 2, {"b": "x"}]}', 6),
        (r'{"a": "[,{\",\\\\", "\",": "]"}', 3),
        ('["' + "word, " * 100 + '", "' + r"\n,\"," * 100 + '"]', 3),
    ],
)
def test_the_values_of_a_text_are_counted_and_not_the_commas_in_strings(
    text: str, values: int
) -> None:
    assert not has_more_values(text, values)
    assert has_more_values(text.encode(), values - 1)


def test_a_thousand_mistakes_are_one_error() -> None:
    event = {"type": "response.create", "response": {str(key): key for key in range(2000)}}
    (answer,) = Pair().send(event)
    assert answer["error"]["code"] == "invalid_value"
