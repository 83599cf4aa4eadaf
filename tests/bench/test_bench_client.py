"""The client against a double of the server, over a real socket."""

import numpy as np
import pytest
from realtime_double import Behaviour, realtime_double

from bench.client import Gone, Late, open_client
from bench.clips import Clip
from bench.wire import WIRES


def short_clip() -> Clip:
    """A quarter of a second of tone, between silences."""
    at = np.arange(4000)
    voice = np.round(np.sin(2 * np.pi * 300 * at / 16_000) * 8000).astype(np.int16)
    samples = np.concatenate([np.zeros(800, np.int16), voice, np.zeros(1600, np.int16)])
    return Clip("tone.wav", samples, 50, 300, "a tone")


@pytest.mark.parametrize("name", sorted(WIRES))
async def test_a_clip_is_heard_by_the_server_and_its_reply_by_the_client(name: str) -> None:
    behaviour = Behaviour()
    with realtime_double(behaviour) as url:
        async with open_client(url, WIRES[name](), transcription=True) as client:
            turn = await client.speak(short_clip(), transcription=True)
    assert turn.failure is None
    assert turn.user_transcript == "what I heard"
    reply = turn.reply
    assert reply is not None
    assert reply.status == "completed"
    assert len(reply.audio) == reply.rate_hz * 3 // 10
    assert reply.audible_at_s is not None
    assert reply.audible_at_s > turn.asked_at_s
    loud = np.abs(np.concatenate(behaviour.heard).astype(np.int32)) > 1000
    heard_s = np.count_nonzero(loud) / WIRES[name].receive_rate_hz
    assert 0.2 < heard_s < 0.27
    (session,) = behaviour.sessions
    assert session["type"] == "realtime"
    assert session["audio"]["input"]["transcription"] == {"model": "whisper-1"}
    assert session["audio"]["output"]["format"] == WIRES[name]().session_format()


async def test_appends_have_the_length_that_was_asked_for() -> None:
    behaviour = Behaviour()
    with realtime_double(behaviour) as url:
        async with open_client(url, append_ms=40) as client:
            await client.speak(short_clip())
    assert set(behaviour.appends) == {24_000 * 40 // 1000 * 2}


async def test_silence_is_appended_after_the_clip_until_the_reply_has_ended() -> None:
    behaviour = Behaviour(wait_s=0.3)
    with realtime_double(behaviour) as url:
        async with open_client(url) as client:
            await client.speak(short_clip())
    loud = [bool(np.abs(block.astype(np.int32)).max() > 1000) for block in behaviour.heard]
    assert len(loud) - max(index for index, is_loud in enumerate(loud) if is_loud) > 10


async def test_two_turns_of_one_session_are_told_apart() -> None:
    with realtime_double() as url:
        async with open_client(url) as client:
            first = await client.speak(short_clip())
            second = await client.speak(short_clip())
    assert len(first.replies) == len(second.replies) == 1
    assert first.events[-1].at_s <= second.events[0].at_s
    assert second.asked_at_s > first.asked_at_s


async def test_a_text_turn_is_answered() -> None:
    with realtime_double() as url:
        async with open_client(url) as client:
            turn = await client.ask("Hello?")
    assert turn.reply is not None
    assert turn.reply.transcript == "Hello there. How are you?"


async def test_a_server_that_never_answers_is_told_in_the_turn() -> None:
    with realtime_double(Behaviour(silent=True)) as url:
        async with open_client(url) as client:
            turn = await client.speak(short_clip(), deadline_s=0.2)
    assert turn.reply is None
    assert turn.failure is not None
    assert "no reply within 0.2 s" in turn.failure
    assert "input_audio_buffer.committed" in turn.failure


async def test_a_connection_that_the_server_closes_is_told_with_code_and_reason() -> None:
    with realtime_double(Behaviour(close_on_speech=True)) as url:
        async with open_client(url) as client:
            turn = await client.speak(short_clip())
            assert turn.failure == "the server closed the connection: 1011 server_error"
            with pytest.raises(Gone, match="1011"):
                await client.send({"type": "input_audio_buffer.clear"})


async def test_waiting_for_what_does_not_come_tells_what_came() -> None:
    with realtime_double() as url:
        async with open_client(url) as client:
            with pytest.raises(Late, match=r"no response\.done within 0\.1 s.*session\.updated"):
                await client.wait_for("response.done", 0.1)
