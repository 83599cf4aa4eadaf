"""A Thinker that sees: pictures come in items, the newest few of them are in its prompts."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import pytest
from pair import Event, Pair
from PIL import Image

from pipeline.messages import PICTURE, RECORDING, End, PromptItem, TextDelta, Usage
from realtime.commands import StartReply
from realtime.picture_limits import PictureLimits

SIGHT = PictureLimits(
    count=3, pixels=3_000, nbytes=20_000, pixels_of_one=2_000, shown_nbytes=20_000
)
BESIDE: dict[str, Any] = {"conversation": "none", "output_modalities": ["text"]}


def uri(width: int = 20, height: int = 10, shade: int = 0) -> str:
    file = io.BytesIO()
    Image.new("L", (width, height), shade).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def image(url: str, **fields: str) -> Event:
    return {"type": "input_image", "image_url": url, **fields}


def message(*content: Event, **fields: Any) -> Event:
    return {"type": "message", "role": "user", "content": list(content), **fields}


def words(text: str) -> Event:
    return {"type": "input_text", "text": text}


def create(pair: Pair, *content: Event, **fields: Any) -> list[Event]:
    item = message(*content, **fields)
    return pair.send({"type": "conversation.item.create", "event_id": "mine", "item": item})


def error_of(events: Sequence[Event]) -> dict[str, Any]:
    (event,) = events
    assert event["type"] == "error"
    found: dict[str, Any] = event["error"]
    return found


def asked(pair: Pair, **response: Any) -> StartReply:
    pair.send({"type": "response.create", "response": response})
    return pair.last(StartReply)


def urls(command: StartReply) -> list[str]:
    return [one.url for one in command.pictures]


def retrieved(pair: Pair, item_id: str) -> list[Event]:
    (event,) = pair.send({"type": "conversation.item.retrieve", "item_id": item_id})
    content: list[Event] = event["item"]["content"]
    return content


def test_a_picture_goes_to_the_thinker_with_its_size_in_its_place() -> None:
    pair = Pair(sight=SIGHT)
    tall = uri(10, 30)
    create(pair, words(f"Is this{PICTURE}"), image(uri()), words("or this?"), image(tall))
    command = asked(pair)
    text = f"Is this\n{PICTURE}\nor this?\n{PICTURE}"
    assert command.start.items[-1] == PromptItem("user", text, pictures=((10, 20), (30, 10)))
    assert urls(command) == [uri(), tall]
    pair.answer("That.")
    pair.check()


def test_a_picture_beside_a_recording_keeps_its_place() -> None:
    pair = Pair(sight=SIGHT, max_heard_s=60.0)
    sound = base64.b64encode(bytes(9_600)).decode()
    create(pair, image(uri()), {"type": "input_audio", "audio": sound})
    command = asked(pair)
    assert command.start.items[-1].text == f"{PICTURE}\n{RECORDING}"
    assert (len(command.pictures), len(command.recordings)) == (1, 1)


def test_tokens_of_pictures_are_told_apart() -> None:
    pair = Pair(sight=SIGHT)
    create(pair, words("And this?"), image(uri()))
    asked(pair)
    (*_, done) = pair.reply(TextDelta("That."), End(usage=Usage(30, 2, 3, 13, image_tokens=8)))
    assert done["response"]["usage"]["input_token_details"] == {
        "text_tokens": 9,
        "audio_tokens": 13,
        "image_tokens": 8,
        "cached_tokens": 3,
        "cached_tokens_details": {"text_tokens": 3, "audio_tokens": 0, "image_tokens": 0},
    }
    pair.check()


def test_the_item_is_told_without_its_picture_and_retrieved_with_it() -> None:
    pair = Pair(sight=SIGHT)
    added, done = create(pair, words("This."), image(uri(), detail="low"), id="it")
    for event in (added, done):
        assert event["item"]["content"] == [
            words("This."),
            {"type": "input_image", "detail": "low"},
        ]
    assert retrieved(pair, "it") == [words("This."), image(uri(), detail="low")]


def test_of_an_items_pictures_only_so_much_comes_back() -> None:
    one, other = uri(), uri(30, 30)
    limits = {"count": 3, "pixels": 3_000, "nbytes": 20_000, "pixels_of_one": 2_000}
    pair = Pair(sight=PictureLimits(**limits, shown_nbytes=len(one) + len(other) - 1))
    create(pair, image(one), image(other), id="it")
    assert retrieved(pair, "it") == [image(one), {"type": "input_image"}]
    assert len(asked(pair).pictures) == 2


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"count": 2}, 2),
        ({"pixels": 200 * 3 - 1}, 2),
        ({"nbytes": len(uri()) * 3 - 1}, 2),
        ({"pixels": 200}, 1),
    ],
)
def test_the_oldest_pictures_go_and_their_words_stay(limits: dict[str, int], left: int) -> None:
    wide = {"count": 9, "pixels": 9_999, "nbytes": 9_999, "pixels_of_one": 999}
    pair = Pair(sight=PictureLimits(**wide | limits, shown_nbytes=9_999))
    for place in range(4):
        create(pair, words(f"Picture {place}."), image(uri(shade=place)), id=f"item_{place}")
    command = asked(pair)
    assert urls(command) == [uri(shade=place) for place in range(4)][-left:]
    texts = [item.text for item in command.start.items[1:]]
    assert texts[0] == "Picture 0."
    assert texts[-1] == f"Picture 3.\n{PICTURE}"
    assert retrieved(pair, "item_0")[1] == {"type": "input_image"}
    assert retrieved(pair, "item_3")[1] == image(uri(shade=3))
    held = [one for entry in pair.session.conversation for one in entry.pictures.values()]
    assert len(held) == left


def test_a_deleted_picture_is_not_seen() -> None:
    pair = Pair(sight=SIGHT)
    create(pair, image(uri()), id="it")
    create(pair, words("Hello."))
    pair.send({"type": "conversation.item.delete", "item_id": "it"})
    command = asked(pair)
    assert [item.text for item in command.start.items[1:]] == ["Hello."]
    assert command.pictures == ()


def test_a_response_sees_what_it_brings_and_what_it_refers_to() -> None:
    pair = Pair(sight=SIGHT)
    create(pair, image(uri(shade=1)), id="it")
    create(pair, image(uri(shade=2)))
    given = [{"type": "item_reference", "id": "it"}, message(words("And?"), image(uri(shade=3)))]
    command = asked(pair, **BESIDE, input=given)
    assert urls(command) == [uri(shade=1), uri(shade=3)]
    texts = [item.text for item in command.start.items[1:]]
    assert texts == [PICTURE, f"And?\n{PICTURE}"]


def test_a_response_cannot_have_more_pictures_than_a_prompt() -> None:
    pair = Pair(sight=SIGHT)
    create(pair, image(uri()), image(uri()), id="it")
    given = [{"type": "item_reference", "id": "it"}, message(image(uri()), image(uri()))]
    event = {"type": "response.create", "response": {**BESIDE, "input": given}}
    error = error_of(pair.send(event))
    assert (error["code"], error["param"]) == ("invalid_value", "response.input")
    assert "at most 3 images" in error["message"]
    assert pair.all(StartReply) == []


BAD = {
    "Base64": "data:image/png;base64,%%",
    "none of PNG": "data:image/png;base64,AAAA",
    "not fetched": "https://example.com/cat.png",
    "no picture": "",
    "2001 x 1 pixels": uri(2001, 1),
}


@pytest.mark.parametrize("told", BAD)
def test_what_is_no_picture_is_refused_by_its_place_and_nothing_changes(told: str) -> None:
    pair = Pair(sight=SIGHT)
    create(pair, words("One."), image(uri()), id="one")
    refused = error_of(create(pair, words("Two."), image(uri()), image(BAD[told]), id="two"))
    assert (refused["code"], refused["event_id"]) == ("invalid_value", "mine")
    assert refused["param"] == "item.content[2].image_url"
    assert told in refused["message"]
    given = [message(words("Three.")), message(image(BAD[told]))]
    event = {"type": "response.create", "response": {**BESIDE, "input": given}}
    assert error_of(pair.send(event))["param"] == "response.input[1].content[0].image_url"
    assert [entry.id for entry in pair.session.conversation] == ["one"]
    assert pair.all(StartReply) == []
    assert urls(asked(pair)) == [uri()]


@pytest.mark.parametrize("fields", [{}, {"image_url": None}])
def test_a_picture_that_is_missing_is_refused_by_its_place(fields: Event) -> None:
    pair = Pair(sight=SIGHT)
    error = error_of(create(pair, words("What?"), {"type": "input_image", **fields}))
    assert error["code"] == "missing_required_parameter"
    assert error["param"] == "item.content[1].image_url"


@pytest.mark.parametrize(
    ("pictures", "place", "told"),
    [
        ([uri()] * 4, 3, "at most 3 images"),
        ([uri(40, 40), uri(50, 30)], 1, "3100 pixels; 3000"),
        (["A" * 20_001], 0, "20001 bytes; 20000"),
    ],
)
def test_too_much_in_one_item_is_refused(pictures: list[str], place: int, told: str) -> None:
    pair = Pair(sight=SIGHT)
    error = error_of(create(pair, *map(image, pictures)))
    assert error["param"] == f"item.content[{place}].image_url"
    assert told in error["message"]
    assert len(pair.session.conversation) == 0


def test_a_picture_is_no_part_of_what_the_assistant_says() -> None:
    pair = Pair(sight=SIGHT)
    item = {"type": "message", "role": "assistant", "content": [image(uri())]}
    error = error_of(pair.send({"type": "conversation.item.create", "item": item}))
    assert error["param"].startswith("item.content[0]")
