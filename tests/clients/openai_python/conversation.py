"""A spoken conversation through the stock `openai` package: one turn a file, then JSON on stdout.

Usage: conversation.py BASE_URL FILE… — each file is 24 kHz mono PCM16 without a header.
"""

import asyncio
import base64
import json
import sys
import time
from pathlib import Path

from openai import AsyncOpenAI

APPEND_MS = 20
APPEND_BYTES = 24_000 * APPEND_MS // 1000 * 2
DEADLINE_S = 60


async def main(base_url: str, questions: list[bytes]) -> None:
    """Speak each question when the reply to the one before has ended."""
    client = AsyncOpenAI(base_url=base_url, api_key="unused")
    turns = []
    async with client.realtime.connect(model="gpt-realtime") as connection:
        created = await connection.recv()
        await connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Answer in one short sentence.",
                "audio": {"input": {"transcription": {"model": "whisper-1"}}},
            }
        )
        speech = bytearray()
        microphone = asyncio.create_task(talk(connection, speech))
        for question in questions:
            speech += question
            async with asyncio.timeout(DEADLINE_S):
                turns.append(await listen(connection))
        microphone.cancel()
    print(json.dumps({"first_event": created.type, "turns": turns}))


async def talk(connection, speech: bytearray) -> None:
    """Append what there is to say, or silence, in real time."""
    due_s = time.monotonic()
    while True:
        block = bytes(speech[:APPEND_BYTES]).ljust(APPEND_BYTES, b"\0")
        del speech[:APPEND_BYTES]
        await connection.input_audio_buffer.append(audio=base64.b64encode(block).decode())
        due_s += APPEND_MS / 1000
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))


async def listen(connection) -> dict:
    """Everything up to the end of the reply and of the user's transcript."""
    turn = {"events": [], "audio": 0, "said": "", "heard": None, "status": None, "items": []}
    async for event in connection:
        turn["events"].append(event.type)
        if event.type == "error":
            raise SystemExit(f"error from the server: {event.error}")
        if event.type == "conversation.item.added":
            turn["items"].append({"id": event.item.id, "role": event.item.role})
        elif event.type == "response.output_audio.delta":
            turn["audio"] += len(base64.b64decode(event.delta, validate=True))
        elif event.type == "response.output_audio_transcript.delta":
            turn["said"] += event.delta
        elif event.type == "conversation.item.input_audio_transcription.completed":
            turn["heard"] = event.transcript
        elif event.type == "response.done":
            turn["status"] = event.response.status
            turn["transcript"] = event.response.output[0].content[0].transcript
            turn["output_tokens"] = event.response.usage.output_tokens
        if turn["status"] is not None and turn["heard"] is not None:
            return turn
    raise SystemExit("the connection ended")


asyncio.run(main(sys.argv[1], [Path(name).read_bytes() for name in sys.argv[2:]]))
