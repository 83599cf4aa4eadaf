"""The embedded Thinker: a GGUF model in llama.cpp, which does its own batching.

llama.cpp's server runs in this worker's process, with slots that generate side by side and keep
what they have computed of the last prompt, so that a session's next turn costs only what is new.
Each request is driven from a thread of a small pool; `step` collects what they have received.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import xllamacpp

from pipeline.messages import (
    Condition,
    End,
    Failed,
    Plan,
    PromptItem,
    Sampling,
    StageMessage,
    Start,
    TextDelta,
    TokenLogprob,
    Usage,
)
from pipeline.models.store import resolve
from pipeline.stage import Batch, Output, Stage, StageSettings
from pipeline.stages.llama_prompt import CallStream, chat_messages, forced_calls, logprobs_of
from pipeline.stages.llama_schema import schema_fault
from pipeline.stages.llama_slots import Reply, Slots
from pipeline.stages.llama_window import Windows

__all__ = ["Llama"]

log = logging.getLogger(__name__)

MODEL = "smollm2-135m-instruct"
PARALLEL = 4
CONTEXT_TOKENS = 2048  # of each slot
CACHE_MIB = 256
"""For prompts that have lost their slot to another session: 11,000 tokens of the default model."""

MAX_TOKENS = 150  # of a spoken reply, if the client sets no limit
MAX_TEXT_TOKENS = 1024  # of any other
PREFILL_TOKENS = 32
"""Tokens of a prompt that are computed at once: a cancelled request stops after at most these.
On two cores 120 tokens/s, with 64 or 256 at once 124 to 129."""

MAX_PREFILL_THREADS = 4
"""On two cores, two threads bring the first token of a turn after 65 ms instead of 95."""

SHIFT_TOKENS = 16
"""After turns have been dropped, stretches of at least so many tokens are moved, not computed again
(493 tokens in 0.3 s instead of 4). Within one session only: a moved stretch remembers what it
followed."""

PASSED_ON = ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty")
"""Fields of Sampling that llama.cpp knows under the same name."""

SAMPLING = {"temperature": 0.0, "dry_multiplier": 0.8, "dry_allowed_length": 4}
"""Greedy, since a model this small is right about facts only in its first guess; and what it has
just said for four tokens it may not go on repeating, or it would repeat it for ever."""


class _TooLong(Exception):
    """The prompt leaves no room for the reply."""

    def __init__(self, tokens: int, message: str) -> None:
        super().__init__(message)
        self.tokens = tokens


class _BadSchema(Exception):
    """No grammar can be made of the JSON schema."""


class _Refused(Exception):
    """llama.cpp did not take the request."""


class Llama(Stage):
    """Prompts in; `TextDelta`s out, each with its `Condition` if it is to be spoken, then `End`.

    options: `model` (a name of the store, or a GGUF file), `parallel` (4), `context_tokens` (2048,
    of each request), `max_tokens` (150, of a spoken reply), `max_text_tokens` (1024), `cache_mib`
    (256), `prefill_threads` (as many as there are cores, at most 4), and llama.cpp's sampling
    parameters under `sampling`.
    """

    def __init__(self, settings: StageSettings) -> None:
        options = settings.options
        self._settings = settings
        self._parallel = int(options.get("parallel", PARALLEL))
        self._context = int(options.get("context_tokens", CONTEXT_TOKENS))
        self._max_tokens = int(options.get("max_tokens", MAX_TOKENS))
        self._max_text_tokens = int(options.get("max_text_tokens", MAX_TEXT_TOKENS))
        self._sampling = {**SAMPLING, **options.get("sampling", {})}
        self._server: Any = None
        self._slots = Slots(self._parallel)
        self._windows = Windows(self._context)
        self._threads = ThreadPoolExecutor(self._parallel, thread_name_prefix="llama")
        self._replies: dict[str, Reply] = {}
        self._instructed = False
        self._asking_lock = threading.Lock()
        self._asking = 0
        self._progress_s = 0.0

    def load(self) -> None:
        """Load the weights and write a few words."""
        path = resolve(self._settings.home, self._settings.options.get("model", MODEL))
        if path.is_dir():
            path = next(path.glob("*.gguf"))
        self._server = _start_server(path, self._settings, self._parallel, self._context)
        self._generate(Reply(_unheard(8)))

    def open(self, start: Start) -> None:
        """Queue the request for the next free slot."""
        reply = self._replies[start.request_id] = Reply(start)
        self._slots.add(reply)
        if not self._instructed and start.items and start.items[0].role == "system":
            # The first instructions are, very likely, those of most sessions: have them in all
            # slots, and a session's first turn is as fast in any of them.
            self._instructed = True
            for _ in range(self._parallel - 1):
                self._slots.add(Reply(_unheard(1, start.items[0])))
        self._dispatch()

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

    def stalled_s(self) -> float:
        """How long llama.cpp has told nothing to anybody who waits for it.

        It tells of each token and of each PREFILL_TOKENS of a prompt; a grammar can keep it from
        both, and then it is deaf to everything else.
        """
        return time.monotonic() - self._progress_s if self._asking else 0.0

    def _dispatch(self) -> None:
        while (reply := self._slots.take()) is not None:
            self._threads.submit(self._run, reply)

    def _collect(self, reply: Reply) -> list[StageMessage]:
        messages: list[StageMessage] = []
        text = ""
        logprobs: list[TokenLogprob] = []
        while reply.received:
            message = reply.received.popleft()
            if isinstance(message, TextDelta):
                text += message.text
                logprobs += message.logprobs
            else:
                messages.append(message)
        if text or logprobs:
            spoken = [Condition(text=text)] if reply.start.plan is Plan.SPEECH else []
            messages[:0] = [TextDelta(text, logprobs=tuple(logprobs)), *spoken]
        return messages

    # -- in the request's thread -----------------------------------------------------------------

    def _run(self, reply: Reply) -> None:
        try:
            if not reply.cancelled.is_set():
                self._generate(reply)
        except _TooLong as error:
            self._give(reply, Failed("context_length_exceeded", str(error)))
        except _Refused as error:
            self._give(reply, Failed("invalid_prompt", str(error)))
        except _BadSchema as error:
            self._give(reply, Failed("invalid_schema", str(error)))
        except Exception as error:
            log.exception("generation failed")
            self._give(reply, Failed("thinker_error", f"{type(error).__name__}: {error}"))
        finally:
            self._slots.free(reply)
            self._dispatch()

    def _generate(self, reply: Reply) -> None:
        """Run the request, dropping the oldest turns of a prompt that is too long."""
        start = reply.start
        window = self._windows.of(start.session_id)
        max_tokens = start.sampling.max_tokens or (
            self._max_tokens
            if start.plan is Plan.SPEECH and not forced_calls(start)
            else self._max_text_tokens
        )
        room = min(max_tokens, self._context // 4)
        items = window.fit(start.items, room, start.retention)
        while True:
            request = self._request(reply, items, max_tokens)
            try:
                end = self._complete(reply, request, self._context - room)
                break
            except _TooLong as error:
                window.learn(items, error.tokens)
                shorter = window.fit(start.items, room, start.retention)
                if len(shorter) < len(items):
                    items = shorter
                elif room > 0 and start.retention.drop:
                    room = 0  # then the reply is as short as it must be
                else:
                    raise
        if end is not None:
            window.learn(items, end.usage.input_tokens)
            self._give(reply, end)

    def _request(self, reply: Reply, items: list[PromptItem], max_tokens: int) -> dict[str, Any]:
        start, sampling = reply.start, reply.start.sampling
        request: dict[str, Any] = {
            **self._sampling,
            "messages": chat_messages(items),
            "max_tokens": max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "id_slot": reply.slot,
            "cache_prompt": True,
            "return_progress": True,  # calls back during a long prompt too, so it can be cancelled
        }
        if reply.at_home and len(items) < len(start.items):
            request["n_cache_reuse"] = SHIFT_TOKENS
        for name in PASSED_ON:
            if (value := getattr(sampling, name)) is not None:
                request[name] = value
        if sampling.seed is not None:
            # What is left of other prompts changes the last digits, and with them the dice.
            request["cache_prompt"] = False
        if sampling.logit_bias:
            request["logit_bias"] = [[token, bias] for token, bias in sampling.logit_bias.items()]
        if sampling.top_logprobs is not None:
            request |= {"logprobs": True, "top_logprobs": sampling.top_logprobs}
        if sampling.stop:
            request["stop"] = list(sampling.stop)
        if schema := forced_calls(start) or sampling.json_schema:
            if (fault := schema_fault(schema)) is not None:
                raise _BadSchema(f"the JSON schema cannot be used: {fault}")
            request["json_schema"] = schema
        return request

    def _complete(self, reply: Reply, request: dict[str, Any], limit: int) -> End | None:
        """Returns how the reply has ended, None if it was cancelled.

        Raises _TooLong for a prompt of more than `limit` tokens.
        """
        call = CallStream(reply.start.request_id) if forced_calls(reply.start) else None
        reason: str | None = None
        usage = Usage()
        refusal: dict[str, Any] | None = None
        prompt_tokens = 0

        def receive(chunk: dict[str, Any]) -> bool:
            nonlocal reason, usage, refusal, prompt_tokens
            self._progress_s = time.monotonic()
            refusal = chunk.get("error", refusal)
            prompt_tokens = chunk.get("prompt_progress", {}).get("total", prompt_tokens)
            if chunk.get("usage"):
                usage = _usage(chunk["usage"])
            for choice in chunk.get("choices", ()):
                reason = choice.get("finish_reason") or reason
                if text := choice.get("delta", {}).get("content"):
                    told = TextDelta(text, logprobs=logprobs_of(choice))
                    self._give(reply, *(call.feed(text) if call else [told]))
            return reply.cancelled.is_set() or prompt_tokens > limit

        self._ask(request, receive)
        if reply.cancelled.is_set():
            return None
        if prompt_tokens > limit:
            raise _TooLong(prompt_tokens, f"the prompt has {prompt_tokens} tokens")
        if refusal is not None:
            raise _why_refused(refusal, request)
        if reason == "length":
            return End("length", usage)
        return End("tool_calls" if call else "stop", usage)

    def _ask(self, request: dict[str, Any], receive: Callable[[dict[str, Any]], bool]) -> None:
        with self._asking_lock:
            if not self._asking:
                self._progress_s = time.monotonic()
            self._asking += 1
        try:
            self._server.handle_chat_completions(request, receive)
        except ValueError as error:
            if "json_schema" not in request:
                raise
            reason = str(error).partition("JSON schema error")[2].removeprefix(" at #")
            raise _BadSchema(f"the JSON schema cannot be used{reason or f': {error}'}") from error
        finally:
            with self._asking_lock:
                self._asking -= 1

    def _give(self, reply: Reply, *messages: StageMessage) -> None:
        if messages and not reply.cancelled.is_set():
            reply.received.extend(messages)
            self.wake(reply.start.request_id)


def _why_refused(refusal: dict[str, Any], request: dict[str, Any]) -> Exception:
    message = str(refusal.get("message", refusal))
    if refusal.get("type") == "exceed_context_size_error":
        return _TooLong(int(refusal["n_prompt_tokens"]), message)
    if "grammar" in message and "json_schema" in request:
        return _BadSchema(f"the JSON schema cannot be used: {message}")
    return _Refused(message)


def _unheard(max_tokens: int, *instructions: PromptItem) -> Start:
    """A request of the stage itself, which nobody reads and which lets all others pass."""
    items = (*instructions, PromptItem("user", "Hello."))
    return Start(
        "warm-up",
        Plan.TEXT,
        items=items,
        sampling=Sampling(max_tokens=max_tokens),
        speculative=True,
    )


def _usage(usage: dict[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        usage["prompt_tokens"], usage["completion_tokens"], details.get("cached_tokens", 0)
    )


def _prefill_threads(settings: StageSettings) -> int:
    """A prompt is computed while nothing can be spoken yet, and most other stages wait for it."""
    spare = min(os.cpu_count() or 1, MAX_PREFILL_THREADS)
    return int(settings.options.get("prefill_threads", max(settings.threads, spare)))


def _start_server(path: Path, settings: StageSettings, parallel: int, context: int) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel = parallel
    params.n_ctx = context * parallel
    params.cache_ram_mib = int(settings.options.get("cache_mib", CACHE_MIB))
    params.n_batch = params.n_ubatch = PREFILL_TOKENS
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = _prefill_threads(settings)
    if settings.device == "cpu":
        params.n_gpu_layers = 0
        # On a CPU flash attention is the slower one: 44 tokens/s without and 26 with it after 1,400
        # tokens of conversation; at 40 tokens they are alike.
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        # Scores against 8 bit keys are quick integer products: after 1,200 tokens of conversation a
        # turn's first token comes in 0.85 of the time. Values have to stay as they are without
        # flash attention.
        params.cache_type_k = xllamacpp.ggml_type.GGML_TYPE_Q8_0
    params.endpoint_metrics = True  # counts decodings: whether a cancelled reply has stopped
    params.verbosity = -1
    params.ui = False
    # The server insists on listening. On a socket file that loses its name at once nobody can
    # reach it, and two servers on one host do not collide.
    folder = tempfile.mkdtemp(prefix="sori-")  # short: a socket's path has at most 104 bytes
    params.hostnames = [f"{folder}/llama.sock"]
    try:
        return xllamacpp.Server(params)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
