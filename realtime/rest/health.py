"""Is the process alive, is it ready, and what has it counted."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from realtime.metrics import CONTENT_TYPE
from realtime.service import Service

router = APIRouter()


@router.get("/health")
async def health() -> dict[str, str]:
    """200 for as long as the process answers at all."""
    return {"status": "ok"}


@router.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """200 once a session would be served at full speed, else 503 with the reason."""
    service: Service = request.app.state.service
    reason = service.why_not_ready()
    if reason is None:
        return JSONResponse({"status": "ready"})
    return JSONResponse(
        {"status": str(service.phase), "reason": reason},
        status_code=HTTPStatus.SERVICE_UNAVAILABLE,
        headers={"Retry-After": "1"},
    )


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus' text format."""
    service: Service = request.app.state.service
    return Response(service.metrics.render(), media_type=CONTENT_TYPE)
