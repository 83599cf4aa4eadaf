"""The REST routes with the embedded models."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel
from speech_scoring import word_error_rate

from bench.server import Server

pytestmark = [pytest.mark.models, pytest.mark.timeout(240)]


class Fruit(BaseModel):
    name: str
    color: str
    sweet: bool


@pytest.fixture
def client(model_server: Server) -> Any:
    with openai.OpenAI(base_url=f"{model_server.url}/v1", api_key="x", max_retries=0) as opened:
        yield opened


def ask(client: openai.OpenAI, text: str, **wish: Any) -> Any:
    messages: Any = [{"role": "user", "content": text}]
    return client.chat.completions.create(model="sori", messages=messages, **wish)


def test_a_question_is_answered(client: openai.OpenAI) -> None:
    answer = ask(client, "What is the capital of France?")
    assert "Paris" in answer.choices[0].message.content


def test_json_of_a_schema_is_valid(client: openai.OpenAI) -> None:
    for fruit in ("banana", "lemon", "apple"):
        answer = client.chat.completions.parse(
            model="sori",
            messages=[{"role": "user", "content": f"Describe a {fruit}."}],
            response_format=Fruit,
        )
        assert isinstance(answer.choices[0].message.parsed, Fruit)


def test_a_json_object_is_one(client: openai.OpenAI) -> None:
    answer = ask(client, "A person as JSON.", response_format={"type": "json_object"})
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_a_schema_that_cannot_be_enforced_is_refused(client: openai.OpenAI) -> None:
    schema = {"name": "x", "schema": {"type": "nonsense"}}
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "Hi", response_format={"type": "json_schema", "json_schema": schema})
    body: Any = refused.value.body
    assert body["param"] == "response_format.json_schema.schema"


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "set_lamp"}}]
)
def test_a_call_that_is_demanded_is_made_with_valid_arguments(
    client: openai.OpenAI, choice: Any
) -> None:
    lamp = {
        "type": "object",
        "properties": {"on": {"type": "boolean"}, "level": {"enum": ["low", "high"]}},
        "required": ["on", "level"],
        "additionalProperties": False,
    }
    weather = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [
        {"type": "function", "function": {"name": "set_lamp", "parameters": lamp}},
        {"type": "function", "function": {"name": "get_weather", "parameters": weather}},
    ]
    answer = ask(client, "Please switch the lamp on.", tools=tools, tool_choice=choice)
    (call,) = answer.choices[0].message.tool_calls
    arguments = json.loads(call.function.arguments)
    if call.function.name == "set_lamp":
        assert set(arguments) == {"on", "level"}
        assert isinstance(arguments["on"], bool)
    else:
        assert choice == "required"
        assert isinstance(arguments["city"], str)


def test_the_same_seed_gives_the_same_answer(client: openai.OpenAI) -> None:
    wish = {"temperature": 1.3, "max_tokens": 24}
    first = ask(client, "Tell me a story.", seed=11, **wish).choices[0].message.content
    ask(client, "Something else in between.", **wish)
    again = ask(client, "Tell me a story.", seed=11, **wish).choices[0].message.content
    other = ask(client, "Tell me a story.", seed=12, **wish).choices[0].message.content
    assert first == again
    assert first != other


def test_probabilities_add_up_to_the_text(client: openai.OpenAI) -> None:
    (choice,) = ask(client, "Hello!", logprobs=True, top_logprobs=3, max_tokens=8).choices
    told = choice.logprobs.content
    assert "".join(one.token for one in told).strip() == choice.message.content.strip()
    for one in told:
        assert len(one.top_logprobs) == 3
        assert one.logprob <= 0
        assert bytes(one.bytes).decode() == one.token


def test_stop_and_bias_are_honoured(client: openai.OpenAI) -> None:
    whole = ask(client, "Count from one to five.", max_tokens=24).choices[0].message.content
    word = whole.split()[2]
    stopped = ask(client, "Count from one to five.", max_tokens=24, stop=[word])
    assert stopped.choices[0].message.content == whole[: whole.index(word)]
    assert stopped.choices[0].finish_reason == "stop"


def test_a_recording_is_heard_and_answered_aloud(client: openai.OpenAI) -> None:
    speech = client.audio.speech.create(
        model="tts-1", voice="coral", input="What is the capital of France?", response_format="wav"
    ).content
    audio = {"data": base64.b64encode(speech).decode(), "format": "wav"}
    content = [{"type": "input_audio", "input_audio": audio}]
    messages: Any = [{"role": "user", "content": content}]
    answer = client.chat.completions.create(
        model="sori",
        messages=messages,
        modalities=["text", "audio"],
        audio={"voice": "ash", "format": "wav"},
    )
    said = answer.choices[0].message.audio
    assert said is not None
    assert "Paris" in said.transcript
    heard = client.audio.transcriptions.create(
        model="whisper-1", file=("answer.wav", base64.b64decode(said.data))
    )
    assert word_error_rate([said.transcript], [heard.text]) < 0.3


def test_what_is_spoken_is_understood_word_by_word_in_time(client: openai.OpenAI) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    speech = client.audio.speech.create(model="tts-1", voice="marin", input=text).content
    heard: Any = client.audio.transcriptions.create(
        model="whisper-1",
        file=("fox.mp3", speech),
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    assert word_error_rate([text], [heard.text]) <= 0.12
    starts = [word.start for word in heard.words]
    assert starts == sorted(starts)
    assert heard.words[-1].end <= heard.duration + 0.1
    assert "".join(segment.text for segment in heard.segments).strip() == heard.text


def test_the_words_of_a_recording_tell_how_sure_they_are(client: openai.OpenAI) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    speech = client.audio.speech.create(model="tts-1", voice="marin", input=text).content
    wish: Any = {"model": "gpt-4o-transcribe", "file": ("fox.mp3", speech), "include": ["logprobs"]}
    heard: Any = client.audio.transcriptions.create(**wish)
    assert "".join(one.token for one in heard.logprobs).strip() == heard.text
    assert all(one.logprob <= 0 for one in heard.logprobs)
    *deltas, done = client.audio.transcriptions.create(**wish, stream=True)
    assert [one.token for delta in deltas for one in delta.logprobs] == [
        one.token for one in done.logprobs
    ]
    assert done.text == heard.text


def test_long_text_begins_at_once_and_is_one_file(model_server: Server) -> None:
    text = ("The ship sailed on through the night. " * 110)[:4000]
    body = {"model": "tts-1", "voice": "marin", "input": text, "response_format": "pcm"}
    sizes: list[int] = []
    with httpx.stream(
        "POST", f"{model_server.url}/v1/audio/speech", json=body, timeout=120
    ) as answer:
        sizes += [len(piece) for piece in answer.iter_bytes()]
    assert len(sizes) > 20  # not in one piece at the end
    assert 120 < sum(sizes) / 48_000 < 400
