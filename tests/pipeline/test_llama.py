"""The embedded Thinker: what it writes, what it caches, and that it stops when told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from process_tree import wait_until
from stage_driver import StageDriver, messages

from pipeline.messages import (
    Condition,
    End,
    Failed,
    Plan,
    PromptItem,
    Retention,
    Sampling,
    Start,
    TextDelta,
    Tool,
    ToolCallDelta,
)
from pipeline.stage import Output, StageSettings, Work
from pipeline.stages.llama import Llama
from pipeline.stages.llama_prompt import forced_calls
from realtime.config import INSTRUCTIONS

pytestmark = pytest.mark.models

SYSTEM = PromptItem("system", INSTRUCTIONS)
STORY = PromptItem("user", "Tell me a long story about a dog.")
CONTEXT = 1024  # short, so that long conversations are soon read
CAPITAL = PromptItem("user", "What is the capital of France?")


@pytest.fixture(scope="module")
def llama(models_home: Path) -> Iterator[StageDriver]:
    """One slot, so that a request that does not stop is in the way of the next."""
    stage = Llama(
        StageSettings(home=models_home, options={"parallel": 1, "context_tokens": CONTEXT})
    )
    stage.load()
    yield StageDriver(stage)


@pytest.fixture(scope="module")
def side_by_side(models_home: Path) -> Llama:
    """Two slots."""
    stage = Llama(StageSettings(home=models_home, options={"parallel": 2}))
    stage.load()
    return stage


def ask(*items: PromptItem, plan: Plan = Plan.TEXT, **sampling: object) -> Start:
    return Start("r", plan, items=items, sampling=Sampling(**sampling))  # type: ignore[arg-type]


def written(outputs: list[Output]) -> str:
    return "".join(o.message.text for o in outputs if isinstance(o.message, TextDelta))


def end_of(outputs: list[Output]) -> End:
    ends = [m for m in messages(outputs) if isinstance(m, End | Failed)]
    assert len(ends) == 1
    assert isinstance(ends[0], End), ends
    return ends[0]


def test_it_knows_the_capital_of_france(llama: StageDriver) -> None:
    outputs = llama.run(ask(SYSTEM, CAPITAL))
    assert "Paris" in written(outputs)
    end = end_of(outputs)
    assert end.reason == "stop"
    assert end.usage.input_tokens > 10
    assert end.usage.output_tokens > 2


def test_what_is_to_be_spoken_comes_as_text_and_as_condition(llama: StageDriver) -> None:
    outputs = llama.run(ask(SYSTEM, CAPITAL, plan=Plan.SPEECH))
    conditions = [m.text for m in messages(outputs) if isinstance(m, Condition)]
    assert "".join(conditions) == written(outputs) != ""


def test_a_text_comes_in_pieces_while_it_is_written(llama: StageDriver) -> None:
    outputs = llama.run(ask(SYSTEM, STORY, max_tokens=30))
    assert sum(isinstance(message, TextDelta) for message in messages(outputs)) > 5
    assert end_of(outputs).reason == "length"


def test_the_next_turn_of_a_session_finds_its_prefix_cached(llama: StageDriver) -> None:
    first = [SYSTEM, STORY]
    outputs = llama.run(ask(*first, max_tokens=20))
    llama.run(ask(*first, PromptItem("assistant", written(outputs)), CAPITAL, max_tokens=5))
    again = llama.run(ask(*first, PromptItem("assistant", written(outputs)), CAPITAL))
    usage = end_of(again).usage
    assert usage.cached_tokens >= usage.input_tokens - 2


def decodings(llama: StageDriver) -> int:
    """How often llama.cpp has run the model; a reply takes one a token."""
    stage = llama.stage
    assert isinstance(stage, Llama)
    (count,) = re.findall(r"^llamacpp:n_decode_total (\d+)", stage._server.handle_metrics(), re.M)
    return int(count)


def test_a_request_that_is_closed_stops_and_gives_its_slot_to_the_next(llama: StageDriver) -> None:
    stream = llama.stream(ask(SYSTEM, STORY, max_tokens=1500))
    next(stream)
    before = decodings(llama)
    stream.close()  # type: ignore[attr-defined]
    assert "Paris" in written(llama.run(ask(SYSTEM, CAPITAL)))
    assert decodings(llama) - before < 100


def test_a_request_closed_while_its_prompt_is_read_stops_there(llama: StageDriver) -> None:
    llama.run(ask(SYSTEM, CAPITAL))
    before = decodings(llama)
    llama.stage.open(ask(SYSTEM, PromptItem("user", "alpha beta " * 400), max_tokens=1))
    while decodings(llama) == before:
        """Each look at the counter waits for the decoding that is going on."""
    llama.stage.close("r")
    llama.run(ask(SYSTEM, CAPITAL, max_tokens=1))
    assert decodings(llama) - before < 10  # the long prompt alone takes 25


def test_a_request_closed_while_it_waits_never_runs(llama: StageDriver) -> None:
    running = llama.stream(ask(SYSTEM, STORY, max_tokens=1500))
    next(running)
    before = decodings(llama)
    llama.stage.open(Start("waiting", Plan.TEXT, items=(SYSTEM, STORY)))
    llama.stage.close("waiting")
    llama.stage.close("waiting")
    running.close()  # type: ignore[attr-defined]
    assert "Paris" in written(llama.run(ask(SYSTEM, CAPITAL)))
    assert decodings(llama) - before < 100


def test_a_seed_makes_warm_sampling_repeatable(llama: StageDriver) -> None:
    start = ask(SYSTEM, STORY, temperature=1.0, seed=7, max_tokens=20)
    assert written(llama.run(start)) == written(llama.run(start))


def test_a_stop_string_ends_the_text_before_it(llama: StageDriver) -> None:
    text = written(llama.run(ask(SYSTEM, CAPITAL, stop=("Paris",))))
    assert "France" in text
    assert "Paris" not in text


def test_text_is_never_cut_inside_a_character(llama: StageDriver) -> None:
    start = ask(PromptItem("user", "Repeat after me: 안녕하세요 🎉 café"), max_tokens=30)
    for message in messages(llama.run(start)):
        if isinstance(message, TextDelta):
            assert "\ufffd" not in message.text


def test_a_schema_is_kept_to(llama: StageDriver) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "large": {"type": "boolean"}},
        "required": ["city", "large"],
    }
    value = json.loads(written(llama.run(ask(SYSTEM, CAPITAL, json_schema=schema))))
    assert isinstance(value["city"], str)
    assert isinstance(value["large"], bool)


def test_a_required_call_streams_valid_arguments(llama: StageDriver) -> None:
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
    }
    start = Start(
        "r",
        Plan.SPEECH,
        items=(SYSTEM, PromptItem("user", "What is the weather in Paris?")),
        tools=(Tool("get_weather", "The weather", parameters), Tool("get_time", "", parameters)),
        tool_choice="get_weather",
    )
    outputs = llama.run(start)
    deltas = [m for m in messages(outputs) if isinstance(m, ToolCallDelta)]
    assert {delta.name for delta in deltas} == {"get_weather"}
    assert isinstance(json.loads("".join(delta.arguments for delta in deltas))["city"], str)
    assert end_of(outputs).reason == "tool_calls"
    assert written(outputs) == ""


@pytest.mark.parametrize("parameters", [{}, {"description": "nothing"}, {"properties": {}}])
def test_the_arguments_of_a_required_call_are_an_object(parameters: dict[str, Any]) -> None:
    tools = (Tool("look", "", parameters),)
    schema = forced_calls(Start("r", Plan.TEXT, tools=tools, tool_choice="required"))
    assert schema is not None
    assert schema["properties"]["arguments"] == {"type": "object", **parameters}


def test_a_conversation_that_is_too_long_loses_its_oldest_turns(llama: StageDriver) -> None:
    turns = [PromptItem("user", "alpha beta " * 60), PromptItem("assistant", "ok " * 20)] * 20
    outputs = llama.run(ask(SYSTEM, *turns, CAPITAL, max_tokens=10))
    assert end_of(outputs).usage.input_tokens < CONTEXT


def test_dropping_turns_costs_a_session_no_new_reading_of_the_rest(llama: StageDriver) -> None:
    conversation = [SYSTEM]
    sizes, new = [], []
    for i in range(8):
        conversation.append(PromptItem("user", f"{i}. " + "The weather was fine that day. " * 20))
        outputs = llama.run(
            Start(
                "r",
                Plan.TEXT,
                items=tuple(conversation),
                session_id="long",
                sampling=Sampling(max_tokens=10),
            )
        )
        conversation.append(PromptItem("assistant", written(outputs)))
        usage = end_of(outputs).usage
        sizes.append(usage.input_tokens)
        new.append(usage.input_tokens - usage.cached_tokens)
    assert sizes != sorted(sizes), "nothing was dropped"
    assert max(new) < 220


def test_a_conversation_in_a_script_of_many_tokens_is_cut_by_what_the_model_counts(
    llama: StageDriver,
) -> None:
    turns = [PromptItem("user", "안녕하세요 " * 20), PromptItem("assistant", "네 " * 10)] * 6
    end = end_of(llama.run(ask(SYSTEM, *turns, CAPITAL, max_tokens=30)))
    assert end.usage.input_tokens <= CONTEXT - 30


def test_two_requests_are_written_side_by_side(side_by_side: Llama) -> None:
    woken = threading.Event()
    side_by_side.wake = lambda request_id: woken.set()
    for name in "ab":
        side_by_side.open(
            Start(name, Plan.TEXT, items=(SYSTEM, STORY), sampling=Sampling(max_tokens=40))
        )
    order: list[str] = []
    open_ones = {"a", "b"}
    while open_ones:
        assert woken.wait(60)
        woken.clear()
        for output in side_by_side.step([Work(name) for name in sorted(open_ones)]):
            order.append(output.request_id)
            if isinstance(output.message, End | Failed):
                open_ones.discard(output.request_id)
                side_by_side.close(output.request_id)
    assert min(order.index("a"), order.index("b")) < len(order) / 4
    assert max(order.index("a"), order.index("b")) < len(order) / 2


def test_the_first_instructions_are_soon_known_in_every_slot(models_home: Path) -> None:
    stage = Llama(StageSettings(home=models_home, options={"parallel": 2}))
    stage.load()
    driver = StageDriver(stage)
    cached = []
    for name in ("one", "two", "three"):
        start = Start("r", Plan.TEXT, items=(SYSTEM, CAPITAL), session_id=name)
        cached.append(end_of(driver.run(start)).usage.cached_tokens)
    assert min(cached[1:]) > 15


def test_a_session_finds_its_prefix_though_another_was_there_in_between(
    side_by_side: Llama,
) -> None:
    driver = StageDriver(side_by_side)
    long = PromptItem("user", "The weather was fine that day. " * 20)
    for name in ("x", "y", "z", "x"):
        named = PromptItem("user", f"I am {name}. {long.text}")
        start = Start("r", Plan.TEXT, items=(SYSTEM, named, CAPITAL), session_id=name)
        usage = end_of(driver.run(start)).usage
    assert usage.cached_tokens > 100


def test_a_message_that_is_too_long_by_itself_is_refused(llama: StageDriver) -> None:
    failed = messages(llama.run(ask(SYSTEM, PromptItem("user", "alpha beta " * 3000))))[-1]
    assert isinstance(failed, Failed)
    assert failed.code == "context_length_exceeded"


def test_a_conversation_that_may_not_be_cut_is_refused_when_it_is_too_long(
    llama: StageDriver,
) -> None:
    turn = PromptItem("user", "The weather was fine that day. " * 20)
    long = ask(SYSTEM, *[turn] * 10, CAPITAL, max_tokens=8)
    assert end_of(llama.run(long)).usage.input_tokens < CONTEXT

    failed = messages(llama.run(replace(long, retention=Retention(drop=False))))[-1]
    assert isinstance(failed, Failed)
    assert failed.code == "context_length_exceeded"


PROPERTIES = {f"p{i}": {"type": "integer"} for i in range(501)}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "foo"},
        {"type": "string", "minLength": 5, "maxLength": 2},  # for ever, if it were let through
        {"$defs": {"a": {"items": {"minItems": 3, "maxItems": 2}}}, "$ref": "#/$defs/a"},
        {"type": "integer", "minimum": 5, "maximum": 2},
        {"type": "string", "pattern": "^a{5,2}$"},
        {"enum": [f"value{i}" for i in range(20_000)]},  # for minutes
        {"anyOf": [{"const": i} for i in range(501)]},
        {"type": "array", "items": [{"type": "object", "properties": PROPERTIES}]},
        {"type": "array", "items": {"type": "integer"}, "minItems": 5000},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_a_schema_that_cannot_be_kept_to_fails_its_request_alone(
    llama: StageDriver, schema: dict[str, Any]
) -> None:
    failed = messages(llama.run(ask(SYSTEM, CAPITAL, json_schema=schema)))[-1]
    assert isinstance(failed, Failed)
    assert failed.code == "invalid_schema"
    assert "Paris" in written(llama.run(ask(SYSTEM, CAPITAL, max_tokens=12)))


def test_properties_that_are_required_are_no_choice(llama: StageDriver) -> None:
    schema = {"type": "object", "properties": PROPERTIES, "required": list(PROPERTIES)}
    assert '"p0"' in written(llama.run(ask(SYSTEM, CAPITAL, json_schema=schema, max_tokens=12)))


def test_how_long_llama_has_told_nothing_is_known(llama: StageDriver) -> None:
    stage = cast(Llama, llama.stage)
    assert stage.stalled_s() == 0
    begun, finish = threading.Event(), threading.Event()

    class Deaf:
        def handle_chat_completions(self, request: Any, receive: Any) -> None:
            begun.set()
            finish.wait(30)
            receive({})

    server, stage._server = stage._server, Deaf()
    try:
        stage.open(ask(SYSTEM, CAPITAL))
        assert begun.wait(30)
        first = stage.stalled_s()
        wait_until(lambda: stage.stalled_s() > first, 10, "it to be noticed")
        finish.set()
        wait_until(lambda: stage.stalled_s() == 0, 10, "the end")
    finally:
        finish.set()
        stage.close("r")
        stage._server = server
    assert "Paris" in written(llama.run(ask(SYSTEM, CAPITAL, max_tokens=12)))


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs Linux's /proc")
def test_it_opens_no_port_and_prints_nothing(models_home: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from pipeline.stage import StageSettings\nfrom pipeline.stages.llama import Llama\n"
        "stage = Llama(StageSettings(home=Path(sys.argv[1])))\nstage.load()\n"
        "own = {os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')"
        " if os.path.islink(f'/proc/self/fd/{fd}')}\n"
        "rows = [line.split() for name in ('tcp', 'tcp6')"
        " for line in open(f'/proc/self/net/{name}').readlines()[1:]]\n"
        "print(sum(f'socket:[{row[9]}]' in own for row in rows), flush=True)\nos._exit(0)\n"
    )
    arguments = [sys.executable, "-c", code, str(models_home)]
    ran = subprocess.run(
        arguments, capture_output=True, text=True, check=True, env={**os.environ}, timeout=100
    )
    assert ran.stdout.split() == ["0"]
    assert ran.stderr == ""
