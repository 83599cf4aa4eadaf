"""What all requests that cost something share: a place, a client that may leave, and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.types import Receive

from pipeline.messages import Failed
from realtime.rest.errors import ApiError, ClientLeft
from realtime.service import Service

Result = TypeVar("Result")

RETRY_AFTER_S = 1
QUEUED = 64

STATUSES = {
    "rate_limit_exceeded": HTTPStatus.TOO_MANY_REQUESTS,
    "synthesis_queue_full": HTTPStatus.TOO_MANY_REQUESTS,
    "context_length_exceeded": HTTPStatus.BAD_REQUEST,
    "invalid_prompt": HTTPStatus.BAD_REQUEST,
    "invalid_schema": HTTPStatus.BAD_REQUEST,
    "unsupported_value": HTTPStatus.BAD_REQUEST,
    "poisoned_request": HTTPStatus.BAD_REQUEST,  # not 5xx: SDKs would send it again by themselves
    "worker_died": HTTPStatus.SERVICE_UNAVAILABLE,
    "worker_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "synthesis_timeout": HTTPStatus.SERVICE_UNAVAILABLE,
}
"""What a request's failure is in HTTP; anything else is the server's fault."""


@contextmanager
def place(service: Service) -> Iterator[None]:
    """A place among the requests that run at once. Raises ApiError: 503 while loading, 429 full."""
    if (reason := service.why_not_ready()) is not None:
        raise ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"The server is not ready: {reason}.",
            code="not_ready",
            retry_after_s=RETRY_AFTER_S,
        )
    limit = service.config.max_rest_requests
    if service.rest_requests >= limit:
        raise ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"Rate limit reached: {limit} requests are running. Please try again later.",
            code="rate_limit_exceeded",
            retry_after_s=RETRY_AFTER_S,
        )
    service.rest_requests += 1
    try:
        yield
    finally:
        service.rest_requests -= 1
        service.note_end()


async def while_connected(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work, which is cancelled when the client leaves. Raises ClientLeft.

    The request's body must have been read.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeft
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait({working, leaving})


async def _left(receive: Receive) -> None:
    """Returns when the client of a request, whose body has been read, is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def api_error(failure: Failed, param: str | None = None) -> ApiError:
    """A request that failed in the engine, before anything of it was sent."""
    status = STATUSES.get(failure.code, HTTPStatus.INTERNAL_SERVER_ERROR)
    passes = status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
    return ApiError(
        status,
        failure.message,
        code=failure.code,
        param=param,
        retry_after_s=RETRY_AFTER_S if passes else None,
    )


Queued = tuple[int, Result] | Exception | None


async def merged(sources: Sequence[AsyncIterator[Result]]) -> AsyncGenerator[tuple[int, Result]]:
    """What all of them give, as it comes, each with the index of its source."""
    queue: asyncio.Queue[Queued[Result]] = asyncio.Queue(QUEUED)
    tasks = [asyncio.create_task(_pump(index, one, queue)) for index, one in enumerate(sources)]
    try:
        running = len(tasks)
        while running:
            taken = await queue.get()
            if isinstance(taken, Exception):
                raise taken
            if taken is None:
                running -= 1
            else:
                yield taken
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _pump(
    index: int, source: AsyncIterator[Result], queue: asyncio.Queue[Queued[Result]]
) -> None:
    try:
        async for one in source:
            await queue.put((index, one))
        await queue.put(None)
    except Exception as error:  # noqa: BLE001 - raised again by whoever iterates
        await queue.put(error)
