"""The beta's dialect, both ways, without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from official_types import check_official_beta

from realtime.errors import ClientError
from realtime.protocol import beta, server
from realtime.protocol.client import (
    ConversationItemCreate,
    InputAudioBufferAppend,
    ResponseCreate,
    SessionUpdate,
)
from realtime.protocol.config import EffectiveSession, SessionConfig
from realtime.protocol.dialect import Dialect
from realtime.protocol.items import AssistantMessage, OutputAudio
from realtime.protocol.responses import Response, ToldAudio, ToldOutput
from realtime.protocol.transcription import EffectiveTranscriptionSession
from realtime.session_update import updated

SETTINGS = {
    "modalities": ["audio", "text"],
    "voice": "verse",
    "input_audio_format": "g711_ulaw",
    "output_audio_format": "pcm16",
    "input_audio_transcription": {"model": "whisper-1"},
    "input_audio_noise_reduction": {"type": "near_field"},
    "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
    "max_response_output_tokens": 50,
    "speed": 1.1,
    "tool_choice": "none",
    "instructions": "Be brief.",
}
SESSION = EffectiveSession(id="sess_1", expires_at=9, model="gpt-realtime")
UPDATED = server.SessionUpdated(event_id="e", session=SESSION)
ITEM = AssistantMessage(id="item_1", status="completed", content=(OutputAudio(transcript="Hi."),))


def told(event: server.ServerEvent, dialect: Dialect | None = None) -> list[dict[str, Any]]:
    dialect = dialect or Dialect(in_beta=True)
    events = [json.loads(frame) for frame in dialect.dump(event, "conv_1")]
    for one in events if dialect.in_beta else []:
        check_official_beta(one)
    return events


def parsed(dialect: Dialect, **event: Any) -> Any:
    return dialect.parse(json.dumps(event))


def test_a_beta_update_means_the_same_session_and_is_echoed_as_it_was_written() -> None:
    event = parsed(Dialect(in_beta=True), type="session.update", session=SETTINGS)
    assert isinstance(event, SessionUpdate)
    config = updated(SessionConfig(), event.session, voice_locked=False)
    assert config.audio.input.format.type == "audio/pcmu"
    assert (config.output_modalities, config.max_output_tokens) == (("audio",), 50)

    echo = beta.session_told({**SESSION.model_dump(), **config.model_dump(mode="json")})
    for key, value in SETTINGS.items():
        if isinstance(value, dict):
            assert echo[key] == {**echo[key], **value}
        else:
            assert echo[key] == value
    assert not {"audio", "type", "output_modalities", "max_output_tokens"} & echo.keys()


def test_the_shape_of_an_update_decides_how_the_server_answers() -> None:
    dialect = Dialect()
    done = server.OutputAudioDone(event_id="e", response_id="r", item_id="i", output_index=0)
    assert told(done, dialect)[0]["type"] == "response.output_audio.done"
    parsed(dialect, type="session.update", session={"voice": "verse", "temperature": 0.7})
    assert told(UPDATED, dialect)[0]["session"]["temperature"] == 0.7
    assert told(done, dialect)[0]["type"] == "response.audio.done"
    parsed(dialect, type="session.update", session={"temperature": None})
    assert told(UPDATED, dialect)[0]["session"]["temperature"] == 0.8
    parsed(dialect, type="session.update", session={"type": "realtime"})
    assert "type" in told(UPDATED, dialect)[0]["session"]
    assert told(done, dialect)[0]["type"] == "response.output_audio.done"


@pytest.mark.parametrize("in_beta", [False, True])
def test_an_update_that_is_refused_does_not_decide_but_is_answered_in_its_words(
    in_beta: bool,
) -> None:
    dialect = Dialect(in_beta=in_beta)
    parsed(dialect, type="session.update", session={"voice": "verse", "temperature": 0.7})
    told(UPDATED, dialect)
    parsed(dialect, type="session.update", session={"type": "realtime"} if not in_beta else {})
    told(UPDATED, dialect)
    other = {"type": "realtime"} if in_beta else {"temperature": 1.1}
    parsed(dialect, type="session.update", session={**other, "audio": {}})
    param = "session.audio.output.voice"
    error = server.ErrorBody(type="invalid_request_error", message="No.", param=param)
    (refused,) = Dialect.dump(dialect, server.Error(event_id="e", error=error), "conv_1")
    assert json.loads(refused)["error"]["param"] == (param if in_beta else "session.voice")
    assert dialect.in_beta == in_beta
    if in_beta:
        assert told(UPDATED, dialect)[0]["session"]["temperature"] == 0.7


def test_an_update_that_only_forgot_its_type_is_not_taken_for_the_beta() -> None:
    dialect = Dialect()
    parsed(dialect, type="session.update", session={"instructions": "Hi."})
    assert not dialect.in_beta


def test_items_and_responses_of_the_client_are_put_in_todays_words() -> None:
    dialect = Dialect(in_beta=True)
    content = [{"type": "text", "text": "Hi."}]
    message = {"type": "message", "role": "assistant", "content": content}
    created = parsed(dialect, type="conversation.item.create", item=message)
    assert isinstance(created, ConversationItemCreate)
    assert created.item.model_dump()["content"][0]["type"] == "output_text"

    asked = {"modalities": ["text"], "max_response_output_tokens": 7, "input": [message]}
    asked["tool_choice"] = {"type": "function", "function": {"name": "weather"}}
    response = parsed(dialect, type="response.create", response=asked)
    assert isinstance(response, ResponseCreate) and response.response is not None
    assert response.response.output_modalities == ("text",)
    assert response.response.max_output_tokens == 7
    assert response.response.model_dump()["tool_choice"]["name"] == "weather"


def test_what_is_the_same_in_both_dialects_is_left_alone() -> None:
    append = parsed(Dialect(in_beta=True), type="input_audio_buffer.append", audio="AAAA")
    assert append == InputAudioBufferAppend(audio="AAAA")


def test_the_conversation_is_announced_and_an_item_only_once() -> None:
    created = told(server.SessionCreated(event_id="e", session=SESSION))
    assert [event["type"] for event in created] == ["session.created", "conversation.created"]
    added = told(server.ItemAdded(event_id="e", item=ITEM))
    assert added[0]["type"] == "conversation.item.created"
    assert added[0]["item"]["content"] == [{"type": "audio", "transcript": "Hi."}]
    assert told(server.ItemDone(event_id="e", item=ITEM)) == []


def test_a_response_is_flat() -> None:
    response = Response(
        id="resp_1",
        status="completed",
        output=(ITEM,),
        output_modalities=("audio",),
        audio=ToldAudio(output=ToldOutput(format=SESSION.audio.output.format, voice="marin")),
    )
    (done,) = told(server.ResponseDone(event_id="e", response=response))
    flat = done["response"]
    assert (flat["voice"], flat["output_audio_format"]) == ("marin", "pcm16")
    assert (flat["modalities"], flat["max_output_tokens"]) == (["audio", "text"], "inf")
    assert flat["output"][0]["content"][0]["type"] == "audio"
    assert not {"audio", "output_modalities"} & flat.keys()


def test_a_transcription_session_has_events_of_its_own() -> None:
    dialect = Dialect(in_beta=True)
    session = {"input_audio_format": "pcm16", "turn_detection": None}
    event = parsed(dialect, type="transcription_session.update", session=session)
    assert event.session["type"] == "transcription"
    effective = EffectiveTranscriptionSession(id="sess_1", expires_at=9)
    (answer,) = told(server.SessionUpdated(event_id="e", session=effective), dialect)
    assert answer["type"] == "transcription_session.updated"
    assert answer["session"]["input_audio_format"] == "pcm16"


@pytest.mark.parametrize(
    ("kind", "owner", "keys"),
    [
        ("response.create", "response", ["turn_detection", "input_audio_format", "speed"]),
        (
            "transcription_session.update",
            "session",
            ["voice", "output_audio_format", "modalities", "temperature"],
        ),
    ],
)
def test_what_a_beta_object_does_not_have_is_named_as_it_was_written(
    kind: str, owner: str, keys: list[str]
) -> None:
    for key in keys:
        with pytest.raises(ClientError) as refused:
            parsed(Dialect(in_beta=True), type=kind, event_id="mine", **{owner: {key: None}})
        assert (refused.value.code, refused.value.param) == ("unknown_parameter", f"{owner}.{key}")
        assert refused.value.event_id == "mine"


KEYS = st.sampled_from([*SETTINGS, "temperature", "audio", "input", "type", "tools", "include"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(beta.TRANSLATED), JSON | st.dictionaries(KEYS, JSON))
def test_whatever_a_client_of_the_beta_sends_is_an_event_or_one_error(kind: str, body: Any) -> None:
    names = {"conversation.item.create": "item", "response.create": "response"}
    event = {"type": kind, "event_id": "mine", names.get(kind, "session"): body}
    try:
        parsed(Dialect(in_beta=True), **event)
    except ClientError as error:
        assert error.event_id == "mine"


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"input_audio_format": "mp3"}, "session.input_audio_format"),
        ({"input_audio_format": None}, "session.input_audio_format"),
        ({"output_audio_format": 5}, "session.output_audio_format"),
        ({"temperature": 2}, "session.temperature"),
        ({"temperature": "hot"}, "session.temperature"),
        ({"speed": 9}, "session.speed"),
        ({"turn_detection": {"type": "server_vad", "threshold": 3}}, "session.turn_detection"),
        ({"modalities": ["smell"]}, "session.modalities"),
        ({"voices": "verse"}, "session.voices"),
        ({"voice": "verse", "audio": 5}, "session.audio"),
    ],
)
def test_what_is_wrong_is_named_as_the_client_wrote_it(session: dict[str, Any], param: str) -> None:
    dialect = Dialect(in_beta=True)
    with pytest.raises(ClientError) as refused:
        event = parsed(dialect, type="session.update", event_id="mine", session=session)
        updated(SessionConfig(), event.session, voice_locked=False)
    error = refused.value
    body = server.ErrorBody(
        type=error.type, code=error.code, message=error.message, param=error.param
    )
    (event,) = told(server.Error(event_id="e", error=body), dialect)
    assert event["error"]["param"].startswith(param)
    assert "audio." not in event["error"]["message"]
    if param.endswith("_format"):
        assert "an object" not in event["error"]["message"]
