"""Which responses may begin, what stops them, and how each of them ends."""

from __future__ import annotations

from typing import Any

import pytest
from pair import Event, Pair, kinds

from pipeline.messages import End, TextDelta, ToolCallDelta, Usage
from realtime.commands import Abort, StartReply

BESIDE: dict[str, Any] = {"conversation": "none", "output_modalities": ["text"], "input": []}


def create(pair: Pair, event_id: str | None = None, **response: Any) -> list[Event]:
    return pair.send({"type": "response.create", "event_id": event_id, "response": response})


def answering() -> Pair:
    """A pair with a response of the conversation that is running."""
    pair = Pair()
    pair.write("hello")
    create(pair)
    return pair


def error_of(events: list[Event]) -> dict[str, Any]:
    (event,) = events
    assert event["type"] == "error"
    found: dict[str, Any] = event["error"]
    return found


def test_a_second_response_is_refused_with_the_events_id_and_the_first_goes_on() -> None:
    pair = answering()
    running = pair.of("response.created")[0]["response"]["id"]
    error = error_of(create(pair, "mine"))
    assert error["code"] == "conversation_already_has_active_response"
    assert error["event_id"] == "mine"
    assert running in error["message"]

    pair.reply(TextDelta("Hello."), End())
    assert [event["response"]["id"] for event in pair.of("response.done")] == [running]
    pair.check()


@pytest.mark.parametrize("by_id", [True, False])
def test_a_cancel_ends_the_response_once(by_id: bool) -> None:
    pair = answering()
    pair.reply(TextDelta("Hel"))
    response_id = pair.of("response.created")[0]["response"]["id"]
    cancel = {"type": "response.cancel", **({"response_id": response_id} if by_id else {})}
    done = pair.send(cancel)[-1]
    assert done["type"] == "response.done"
    assert done["response"]["status_details"] == {
        "type": "cancelled",
        "reason": "client_cancelled",
    }
    assert pair.last(Abort).request_id == response_id

    error = error_of(pair.send({**cancel, "event_id": "again"}))
    assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "again")
    assert error["message"].startswith("Cancellation failed")
    assert len(pair.of("response.done")) == 1


def test_responses_beside_the_conversation_run_at_once_and_stop_by_their_id_only() -> None:
    pair = answering()
    beside = [create(pair, **BESIDE)[0]["response"] for _ in range(2)]
    assert [response["conversation_id"] for response in beside] == [None, None]
    starts = pair.all(StartReply)[-2:]

    pair.send({"type": "response.cancel"})  # the conversation's
    assert error_of(pair.send({"type": "response.cancel"}))["code"] == "response_cancel_not_active"
    pair.send({"type": "response.cancel", "response_id": beside[0]["id"]})
    pair.reply_to(starts[1], TextDelta("Yes."), End())
    assert [event["response"]["status"] for event in pair.of("response.done")] == [
        "cancelled",
        "cancelled",
        "completed",
    ]
    assert pair.of("response.done")[-1]["response"]["id"] == beside[1]["id"]
    pair.check()


def test_only_so_many_run_beside_the_conversation() -> None:
    pair = Pair(max_parallel_responses=2)
    for _ in range(2):
        create(pair, **BESIDE)
    error = error_of(create(pair, "third", **BESIDE))
    assert (error["code"], error["param"]) == ("rate_limit_exceeded", "response.conversation")
    assert error["event_id"] == "third"


def test_a_response_out_of_tokens_is_incomplete() -> None:
    pair = Pair()
    pair.write("tell me a story")
    create(pair, max_output_tokens=3)
    assert pair.last(StartReply).start.sampling.max_tokens == 3
    pair.reply(TextDelta("Once upon a"), End("length", Usage(9, 3)))

    response = pair.of("response.done")[0]["response"]
    assert response["status"] == "incomplete"
    assert response["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"
    assert response["max_output_tokens"] == 3


def test_several_calls_in_one_response_each_have_an_item() -> None:
    pair = Pair()
    tools = [{"type": "function", "name": name} for name in ("look", "listen")]
    pair.update(tools=tools)
    pair.write("what is there?")
    create(pair)
    pair.reply(
        TextDelta("Let me see."),
        ToolCallDelta("call_a", "look", '{"far":'),
        ToolCallDelta("call_a", "", "true}"),
        ToolCallDelta("call_b", "listen", "{}"),
        End("tool_calls"),
    )

    added = pair.of("response.output_item.added")
    assert [event["output_index"] for event in added] == [0, 1, 2]
    done = pair.of("response.function_call_arguments.done")
    assert [(event["call_id"], event["name"], event["arguments"]) for event in done] == [
        ("call_a", "look", '{"far":true}'),
        ("call_b", "listen", "{}"),
    ]
    output = pair.of("response.done")[0]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "function_call"]

    for call_id in ("call_b", "call_a"):
        item = {"type": "function_call_output", "call_id": call_id, "output": "nothing"}
        pair.send({"type": "conversation.item.create", "item": item})
    create(pair)
    read = pair.last(StartReply).start.items
    assert [len(item.tool_calls) for item in read if item.tool_calls] == [2]
    assert [item.call_id for item in read if item.role == "tool"] == ["call_b", "call_a"]
    pair.check()


def test_what_a_response_asks_for_holds_for_it_alone() -> None:
    pair = Pair()
    pair.update(instructions="Be kind.", tools=[{"type": "function", "name": "look"}])
    pair.write("hello")
    (created,) = create(
        pair,
        instructions="Be rude.",
        output_modalities=["text"],
        tools=[],
        metadata={"topic": "manners"},
        audio={"output": {"voice": "ash", "format": {"type": "audio/pcmu"}}},
    )
    start = pair.last(StartReply).start
    assert (start.items[0].text, start.tools, start.voice) == ("Be rude.", (), "ash")
    assert created["response"]["metadata"] == {"topic": "manners"}
    assert created["response"]["output_modalities"] == ["text"]
    assert created["response"]["audio"]["output"]["format"] == {"type": "audio/pcmu"}
    pair.reply(TextDelta("What?"), End())

    create(pair)
    start = pair.last(StartReply).start
    assert (start.items[0].text, start.tools[0].name) == ("Be kind.", "look")


def test_what_cannot_be_asked_for_names_its_place_and_starts_nothing() -> None:
    pair = Pair()
    for response, param in (
        ({"input": [{"type": "item_reference", "id": "no"}]}, "response.input[0]"),
        (
            {"input": [{"type": "function_call_output", "call_id": "no", "output": ""}]},
            "response.input[0].call_id",
        ),
        ({"tool_choice": {"type": "function", "name": "no"}}, "response.tool_choice"),
        ({"metadata": {"long": "x" * 513}}, "response.metadata"),
    ):
        assert error_of(create(pair, **response))["param"] == param
    assert pair.all(StartReply) == []


PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}


def test_a_picture_is_refused_by_the_name_of_its_part() -> None:
    pair = Pair()
    message = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "What is this?"}, PICTURE],
    }
    error = error_of(pair.send({"type": "conversation.item.create", "item": message}))
    assert (error["code"], error["param"]) == ("unsupported_content_type", "item.content[1]")
    error = error_of(create(pair, input=[message]))
    assert error["param"] == "response.input[0].content[1]"
    assert len(pair.session.conversation) == 0


def test_items_go_where_they_are_put_and_ids_are_taken_once() -> None:
    pair = Pair()
    pair.write("one", id="one")
    (added, _) = pair.send(_item("three", previous_item_id="one"))
    assert added["previous_item_id"] == "one"
    (added, _) = pair.send(_item("zero", previous_item_id="root"))
    assert added["previous_item_id"] is None
    pair.send(_item("two", previous_item_id="one"))
    assert [entry.id for entry in pair.session.conversation] == ["zero", "one", "two", "three"]

    for event, code in (
        (_item("one"), "item_create_duplicate_item_id"),
        (_item("new", previous_item_id="no"), "item_create_invalid_previous_item_id"),
    ):
        assert error_of(pair.send(event))["code"] == code
    pair.send({"type": "conversation.item.delete", "item_id": "three"})
    (added, _) = pair.send(_item("four"))
    assert added["previous_item_id"] == "two"  # never one that is gone
    assert kinds(pair.log[-2:]) == ["conversation.item.added", "conversation.item.done"]


def _item(item_id: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "input_text", "text": item_id}]
    item = {"id": item_id, "type": "message", "role": "user", "content": content}
    return {"type": "conversation.item.create", "item": item, **fields}
