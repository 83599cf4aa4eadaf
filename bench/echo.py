"""The least that any server of this kind does: FastAPI takes the same frames and sends the same.

`python -m bench.echo PORT` reads each frame as JSON and the audio in it, and answers a turn with
the events of a reply, paced like one. What Sori takes longer than this is Sori's own.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys

import numpy as np
from fastapi import FastAPI, WebSocket
from starlette.websockets import WebSocketDisconnect

from realtime.config import Config
from realtime.serving import make_server

DELTA_MS = 200
REPLY_MS = 2000
LEAD_MS = 2000
AUDIO = base64.b64encode(np.zeros(24 * DELTA_MS, "<i2").tobytes()).decode()

app = FastAPI()


@app.websocket("/v1/realtime")
async def echo(websocket: WebSocket) -> None:
    """One client."""
    await websocket.accept()
    try:
        async with asyncio.TaskGroup() as replies:
            while True:
                event = json.loads(await websocket.receive_text())
                match event["type"]:
                    case "session.update":
                        await websocket.send_text(json.dumps({"type": "session.updated"}))
                    case "input_audio_buffer.append":
                        np.frombuffer(base64.b64decode(event["audio"]), "<i2").astype(np.float32)
                    case "response.create":
                        replies.create_task(_reply(websocket))
    except* (WebSocketDisconnect, RuntimeError):
        pass


async def _reply(websocket: WebSocket) -> None:
    for sent_ms in range(0, REPLY_MS, DELTA_MS):
        if sent_ms >= LEAD_MS:
            await asyncio.sleep(DELTA_MS / 1000)
        event = {"type": "response.output_audio.delta", "event_id": "event_" + 20 * "0"}
        ids = {"response_id": "resp_" + 20 * "0", "item_id": "item_" + 20 * "0"}
        await websocket.send_text(json.dumps({**event, **ids, "delta": AUDIO}))
    await websocket.send_text(json.dumps({"type": "response.done"}))


def main() -> None:
    """Serve until killed, with the settings of Sori's own uvicorn."""
    config = Config(port=int(sys.argv[1]))
    server = make_server(config, app)
    server.config.port = config.port
    server.run()


if __name__ == "__main__":
    main()
