"""What is wrong with an event is told by one error, and changes nothing."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pair import Pair
from wrong_events import examples, mistakes

from realtime.protocol import ClientEvent, InputAudioBufferAppend, parse_event
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
    ],
)
def test_frames_that_are_no_events(frame: str | bytes, code: str, param: str | None) -> None:
    pair = Pair()
    (answer,) = pair.send(frame)
    assert (answer["error"]["code"], answer["error"]["param"]) == (code, param)
