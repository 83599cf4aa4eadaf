"""What all connections share: the engine, the counts, and whether the server is ready.

The port opens before the models are loaded, so that `/health` answers at once and `/ready` can say
what it waits for.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum

from pipeline.engine import Engine
from realtime.client_secrets import ClientSecrets
from realtime.config import Config
from realtime.engine_metrics import EngineCollector
from realtime.heap import Heap
from realtime.loop_lag import LoopLag
from realtime.metrics import Metrics
from realtime.rest.audio_history import AudioHistory

logger = logging.getLogger(__name__)


class Phase(StrEnum):
    """Where the server is in its life."""

    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"
    STOPPED = "stopped"


REASONS = {
    Phase.LOADING: "the models are loading",
    Phase.WARMING: "the models are warming up",
    Phase.DRAINING: "the server is shutting down",
    Phase.STOPPED: "the server is shutting down",
}


class Service:
    """The server's shared state. One per app."""

    def __init__(self, config: Config, engine: Engine) -> None:
        self.config = config
        self.engine = engine
        self.client_secrets = ClientSecrets(config.client_secret_key)
        self.metrics = Metrics()
        self.metrics.registry.register(EngineCollector(engine.stats))
        self._heap = Heap()
        self.loop_lag = LoopLag()
        self.metrics.registry.register(self.loop_lag)
        self.metrics.watch_ready(lambda: float(self.why_not_ready() is None))
        self.phase = Phase.LOADING
        self.failure = ""
        self.sessions: set[object] = set()
        self.rest_requests = 0
        self.audio_history = AudioHistory()
        self.settled = asyncio.Event()  # set once the phase is READY, FAILED or STOPPED
        self.draining = asyncio.Event()  # what is in progress is finished, and nothing begun
        self.drained = asyncio.Event()  # and nothing is in progress any more

    def why_not_ready(self) -> str | None:
        """None when sessions are taken, else the reason in words."""
        if self.phase is Phase.FAILED:
            return self.failure
        if self.phase is Phase.READY:
            # A worker that died is being restarted; sessions that do not need it go on.
            return (
                "; ".join(f"{name} is {why}" for name, why in self.engine.not_ready().items())
                or None
            )
        return REASONS[self.phase]

    def is_full(self) -> bool:
        """Whether one more session would be too many."""
        return len(self.sessions) >= self.config.max_sessions

    async def start(self, warm_up: Callable[[], Awaitable[None]]) -> None:
        """Load the models and run the first turns. Failures end up in `failure`."""
        began = time.monotonic()
        try:
            await self.engine.start()
            loaded = time.monotonic()
            self._enter(Phase.WARMING)
            await warm_up()
        except Exception as error:  # boundary: whatever a model raises must reach /ready
            logger.exception("the engine did not start")
            self.failure = str(error) or type(error).__name__
            self._enter(Phase.FAILED)
            return
        logger.info(
            "ready: models loaded in %.1f s, warmed up in %.1f s",
            loaded - began,
            time.monotonic() - loaded,
        )
        # What the start has made stays to the end: no collection need look at it again.
        gc.collect()
        gc.freeze()
        self._enter(Phase.READY)

    def drain(self) -> None:
        """Begin no session and no request; `drained` tells when those in progress are over."""
        if self.phase is not Phase.STOPPED:
            self._enter(Phase.DRAINING)
        self.draining.set()
        self.note_end()

    def note_end(self) -> None:
        """A session or a request is over."""
        if self.sessions or self.rest_requests:
            return
        if self.draining.is_set():
            self.drained.set()
        else:
            self._heap.rest()

    async def stop(self) -> None:
        """Take no more sessions and end the engine."""
        self._enter(Phase.STOPPED)
        await self.engine.shutdown()

    def _enter(self, phase: Phase) -> None:
        if self.draining.is_set() and phase is not Phase.STOPPED:
            return  # whatever the start came to
        logger.info("%s -> %s", self.phase, phase)
        self.phase = phase
        if phase in {Phase.READY, Phase.FAILED, Phase.STOPPED}:
            self.settled.set()
