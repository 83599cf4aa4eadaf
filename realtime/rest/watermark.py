"""`POST /v1/audio/watermark`: whether a recording carries this server's mark. An extension."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from fastapi import APIRouter, Depends, Request
from numpy.typing import NDArray
from starlette.datastructures import UploadFile

from audio.containers import ContainerError, read_audio
from pipeline.config import EngineConfig
from pipeline.watermark_key import watermark_key
from realtime.marking import ONLY_SORI
from realtime.rest.errors import MISSING, bad_request
from realtime.rest.models import require_key
from realtime.rest.recordings import unreadable
from realtime.rest.uploads import read_form
from realtime.rest.work import place, while_connected
from realtime.service import Service

router = APIRouter(prefix="/v1", dependencies=[Depends(require_key)])

DEFAULT_THRESHOLD = "1e-6"


@router.post("/audio/watermark")
async def detect_watermark(request: Request) -> dict[str, Any]:
    """A form with `file`, and `threshold` for the p-value from which on it counts as marked."""
    service: Service = request.app.state.service
    form = await read_form(request, service.config.max_file_bytes)
    for name in form:
        if name not in ("file", "threshold"):
            raise bad_request(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    file, threshold = _file(form), _threshold(form)
    if service.config.watermark.backend != "sori":
        raise bad_request(ONLY_SORI, "file", "unsupported_value")
    with place(service):
        return await while_connected(request.receive, _detect(file, threshold, service.config))


def _file(form: dict[str, list[Any]]) -> BinaryIO:
    values = form.get("file", [])
    if not values:
        raise bad_request("Missing required parameter: 'file'.", "file", MISSING)
    if len(values) > 1 or not isinstance(values[0], UploadFile):
        raise bad_request("Invalid type for 'file': expected one file.", "file", "invalid_type")
    return values[0].file


def _threshold(form: dict[str, list[Any]]) -> float:
    values = form.get("threshold", [DEFAULT_THRESHOLD])
    try:
        threshold = float(values[0])
    except (TypeError, ValueError):
        threshold = 0.0
    if len(values) > 1 or not 0.0 < threshold < 1.0:
        raise bad_request(
            "Invalid value for 'threshold': a number between 0 and 1 is expected.", "threshold"
        )
    return threshold


async def _detect(file: BinaryIO, threshold: float, config: EngineConfig) -> dict[str, Any]:
    left = threading.Event()
    try:
        return await asyncio.to_thread(_search, file, threshold, config, left)
    except ContainerError as error:
        raise unreadable("file") from error
    finally:
        left.set()


def _search(
    file: BinaryIO, threshold: float, config: EngineConfig, left: threading.Event
) -> dict[str, Any]:
    from audio.watermark.grid import RATE_HZ  # scipy: only for those who ask
    from audio.watermark.scan import detect

    def blocks() -> Iterator[NDArray[np.int16]]:
        for block in read_audio(file, RATE_HZ):
            if left.is_set():
                return  # nobody reads the answer
            yield block

    found = detect(blocks(), watermark_key(config), threshold)
    return {
        "object": "audio.watermark",
        "detected": found.detected,
        "p_value": found.p_value,
        "payload": found.payload,
        "speed": found.speed,
        "duration": found.seconds,
        "ranges": [
            {
                "start": one.start_s,
                "end": one.end_s,
                "p_value": one.p_value,
                "payload": one.payload,
            }
            for one in found.ranges
        ],
    }
