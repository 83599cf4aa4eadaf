"""The embedded Thinker: a GGUF model in llama.cpp, which does its own batching.

llama.cpp's server runs in this worker's process, with slots that generate side by side and keep the
prefix of the last prompt, so that a session's next turn costs only what is new. Each request is
driven from a thread of a small pool; `step` collects what the threads have received.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xllamacpp

from pipeline.messages import (
    Condition,
    End,
    Failed,
    Plan,
    PromptItem,
    StageMessage,
    Start,
    TextDelta,
    Usage,
)
from pipeline.models.store import resolve
from pipeline.stage import Batch, Output, Stage, StageSettings
from pipeline.stages.llama_prompt import CallStream, chat_messages, drop_oldest, forced_calls

__all__ = ["Llama"]

log = logging.getLogger(__name__)

MODEL = "smollm2-135m-instruct"
PARALLEL = 4
CONTEXT_TOKENS = 2048  # of each slot
MAX_TOKENS = 150  # of a spoken reply, if the client sets no limit
PREFILL_TOKENS = 64
"""Tokens of a prompt that are computed at once: a cancelled request stops after at most these."""

SAMPLING = {"temperature": 0.0, "dry_multiplier": 0.8, "dry_allowed_length": 4}
"""Greedy, since a model this small is right about facts only in its first guess; and what it has
just said for four tokens it may not go on repeating, or it would repeat it for ever."""


@dataclass(slots=True)
class _Reply:
    """One request, shared by its thread and the runner's."""

    start: Start
    received: deque[StageMessage] = field(default_factory=deque)
    cancelled: threading.Event = field(default_factory=threading.Event)


class _Refused(Exception):
    """llama.cpp did not take the request."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message", error)))
        self.too_long = error.get("type") == "exceed_context_size_error"
        self.prompt_tokens = int(error.get("n_prompt_tokens", 0))
        self.limit = int(error.get("n_ctx", 0))


class Llama(Stage):
    """Prompts in; `TextDelta`s out, each with its `Condition` if it is to be spoken, then `End`.

    options: `model` (a name of the store, or a GGUF file), `parallel` (4), `context_tokens` (2048,
    of each request), `max_tokens` (150), and llama.cpp's sampling parameters under `sampling`.
    """

    def __init__(self, settings: StageSettings) -> None:
        options = settings.options
        self._settings = settings
        self._parallel = int(options.get("parallel", PARALLEL))
        self._context = int(options.get("context_tokens", CONTEXT_TOKENS))
        self._max_tokens = int(options.get("max_tokens", MAX_TOKENS))
        self._sampling = {**SAMPLING, **options.get("sampling", {})}
        self._server: Any = None
        self._threads = ThreadPoolExecutor(self._parallel, thread_name_prefix="llama")
        self._replies: dict[str, _Reply] = {}

    def load(self) -> None:
        """Load the weights and write a few words."""
        path = resolve(self._settings.home, self._settings.options.get("model", MODEL))
        if path.is_dir():
            path = next(path.glob("*.gguf"))
        self._server = _start_server(path, self._settings, self._parallel, self._context)
        self._generate(
            _Reply(Start("warm-up", Plan.TEXT, items=(PromptItem("user", "Hello."),))), 8
        )

    def open(self, start: Start) -> None:
        """Queue the request for the next free slot."""
        reply = self._replies[start.request_id] = _Reply(start)
        self._threads.submit(self._run, reply)

    def step(self, batch: Batch) -> list[Output]:
        """Whatever has been written since the last step, in one piece."""
        return [
            Output(work.request_id, message)
            for work in batch
            for message in self._collect(self._replies[work.request_id])
        ]

    def close(self, request_id: str) -> None:
        """Stop generating; llama.cpp sees it at its next token."""
        reply = self._replies.pop(request_id, None)
        if reply is not None:
            reply.cancelled.set()

    def _collect(self, reply: _Reply) -> list[StageMessage]:
        messages: list[StageMessage] = []
        text = ""
        while reply.received:
            message = reply.received.popleft()
            if isinstance(message, TextDelta):
                text += message.text
            else:
                messages.append(message)
        if text:
            spoken = [Condition(text=text)] if reply.start.plan is Plan.SPEECH else []
            messages[:0] = [TextDelta(text), *spoken]
        return messages

    # -- in the request's thread -----------------------------------------------------------------

    def _run(self, reply: _Reply) -> None:
        if reply.cancelled.is_set():
            return
        try:
            self._generate(reply, self._max_tokens)
        except _Refused as error:
            code = "context_length_exceeded" if error.too_long else "invalid_prompt"
            self._give(reply, Failed(code, str(error)))
        except Exception as error:
            log.exception("generation failed")
            self._give(reply, Failed("thinker_error", f"{type(error).__name__}: {error}"))

    def _generate(self, reply: _Reply, max_tokens: int) -> None:
        """Run the request, dropping the oldest turns of a prompt that is too long."""
        items = list(reply.start.items)
        while True:
            try:
                self._complete(reply, self._request(reply.start, items, max_tokens))
                return
            except _Refused as error:
                if not error.too_long or not drop_oldest(items, error.prompt_tokens, error.limit):
                    raise

    def _request(self, start: Start, items: list[PromptItem], max_tokens: int) -> dict[str, Any]:
        sampling = start.sampling
        request: dict[str, Any] = {
            **self._sampling,
            "messages": chat_messages(items),
            "max_tokens": sampling.max_tokens or max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "cache_prompt": True,
            "return_progress": True,
        }
        for name in ("temperature", "top_p", "seed"):
            if (value := getattr(sampling, name)) is not None:
                request[name] = value
        if sampling.stop:
            request["stop"] = list(sampling.stop)
        if schema := forced_calls(start) or sampling.json_schema:
            request["json_schema"] = schema
        return request

    def _complete(self, reply: _Reply, request: dict[str, Any]) -> None:
        call = CallStream(reply.start.request_id) if forced_calls(reply.start) else None
        reason = "stop"
        usage = Usage()
        refusal: dict[str, Any] | None = None

        def receive(chunk: dict[str, Any]) -> bool:
            nonlocal reason, usage, refusal
            refusal = chunk.get("error", refusal)
            if "usage" in chunk and chunk["usage"]:
                usage = _usage(chunk["usage"])
            for choice in chunk.get("choices", ()):
                reason = choice.get("finish_reason") or reason
                if text := choice.get("delta", {}).get("content"):
                    self._give(reply, *(call.feed(text) if call else [TextDelta(text)]))
            return reply.cancelled.is_set()

        self._server.handle_chat_completions(request, receive)
        if refusal is not None:
            raise _Refused(refusal)
        if call and reason != "length":
            reason = "tool_calls"
        self._give(reply, End("length" if reason == "length" else reason, usage))  # type: ignore[arg-type]

    def _give(self, reply: _Reply, *messages: StageMessage) -> None:
        if messages and not reply.cancelled.is_set():
            reply.received.extend(messages)
            self.wake(reply.start.request_id)


def _usage(usage: dict[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        usage["prompt_tokens"], usage["completion_tokens"], details.get("cached_tokens", 0)
    )


def _start_server(path: Path, settings: StageSettings, parallel: int, context: int) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel = parallel
    params.n_ctx = context * parallel
    params.n_batch = params.n_ubatch = PREFILL_TOKENS
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    params.n_gpu_layers = 0 if settings.device == "cpu" else -1
    params.verbosity = -1
    params.ui = False
    # The server insists on listening. On a socket file that loses its name at once nobody can
    # reach it, and two servers on one host do not collide.
    folder = tempfile.mkdtemp(prefix="sori-llama-")
    params.hostnames = [f"{folder}/llama.sock"]
    try:
        return xllamacpp.Server(params)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
