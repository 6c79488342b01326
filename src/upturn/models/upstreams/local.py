"""An upstream in this process: a local model behind the engine, with continuous batching.

The engine runs in a thread of its own with its own event loop, so that its passes do not delay other calls. Prompts
are rendered by the model's chat template, or in the compact grammar of the shipped model. The tokens are known, so
every call is captured completely. Text is streamed as it is sampled, except where its reading can change later:
with tools, stop strings, or a thought that has not ended.

Not covered: images, structured output by schema.
"""

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import Protocol, runtime_checkable

from upturn.config import SamplingSettings
from upturn.dialects import (
    FinishReason,
    ModelAnswer,
    ModelRequest,
    Part,
    RequestError,
    Sampling,
    StreamEvent,
    StreamFailure,
    StreamStart,
    Text,
    TextDelta,
    TokenUsage,
    request_object,
)
from upturn.errors import ModelError
from upturn.models.chat_template import ChatRenderer
from upturn.models.model import Generation, GenerationRequest, Model
from upturn.models.renderer import CompactRenderer, Renderer
from upturn.models.upstreams.answer_events import answer_events
from upturn.models.upstreams.chat_script import ChatScript
from upturn.models.upstreams.compact_script import CompactScript
from upturn.models.upstreams.event_exchange import EventExchange
from upturn.models.upstreams.fork_cause import Fork
from upturn.models.upstreams.script import Prompt, Script
from upturn.models.upstreams.upstream import BreakerState, Drawn, Exchange, Forwarded, UpstreamCall, UpstreamError
from upturn.records import JsonValue, TokenRow, WrittenSpan

DEFAULT_MAX_TOKENS = 256
"""Of answers to requests without a limit."""
_LEAST_TEMPERATURE = 1e-3
"""Below it, log-probabilities are infinite or nearly so, and the likeliest token is drawn anyway."""
_FORMAT_FIELDS = {"chat": "response_format", "responses": "text.format", "messages": "output_config.format"}
"""The field of the answer's form, by dialect."""
_LOGPROBS = "message.output_text.logprobs"
"""Responses asks for log-probs so."""
_SAMPLING = ("temperature", "top_p", "top_k", "seed")
"""Parameters that change how tokens are drawn."""
_NEUTRAL: Mapping[str, tuple[JsonValue, ...]] = {
    "logprobs": (False, 0),
    "top_logprobs": (0,),
    "prompt_logprobs": (0,),
    "logit_bias": ({},),
    "best_of": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "repetition_penalty": (1,),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "ignore_eos": (False,),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "structured_outputs": (),
    "prediction": (),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "continue_final_message": (False,),
    "truncation": ("disabled",),
    "max_tool_calls": (),
}
"""Fields of requests that no local model honours, beside those of ``ModelRequest``, and the values, beside null, at
which they change nothing: OpenAI's, and those of vLLM and SGLang."""
_REPORT_SECONDS = 0.02
"""Between two reports of the tokens so far."""


@runtime_checkable
class ReportsTokens(Protocol):
    """A model that knows the tokens of calls that run."""

    def written(self, session: str) -> tuple[int, ...]:
        """All tokens that the session's call has so far."""


class Generator(Protocol):
    """Where the tokens of answers come from."""

    def number(self) -> int:
        """The number of a new call; unique among all calls that share the generator's model."""

    async def generate(
        self,
        request: GenerationRequest,
        fork_cause: str | None,
        seen: Callable[[tuple[int, ...]], None] | None,
        /,
    ) -> Generation:
        """The continuation; raises ModelError. Cancelling it ends the work.

        ``fork_cause``: ``Prompt.fork_cause``. ``seen`` is called with all tokens so far, again and again, from any
        thread, where they are known before the end; None = nobody asks.
        """

    async def close(self) -> None:
        """Ends all work."""


class EngineThread:
    """A Generator: a model with an event loop in a thread of its own. Started by ``load`` or the first call."""

    def __init__(self, model: Callable[[], Model]) -> None:
        """``model`` is called once, in the thread."""
        self._make = model
        self._model: Model | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def number(self) -> int:
        """The number of a new call; unique, since upstreams that share the model share its sessions."""
        return next(self._numbers)

    def load(self) -> "Future[Model]":
        """A future with the model, once it is loaded; its error is a ModelError."""
        return asyncio.run_coroutine_threadsafe(self._loaded(), self._running())

    async def generate(
        self,
        request: GenerationRequest,
        fork_cause: str | None,  # noqa: ARG002  as in the protocol
        seen: Callable[[tuple[int, ...]], None] | None,
    ) -> Generation:
        """The generation; cancelling it frees the engine's slot. ``seen`` is called in the thread."""
        future = asyncio.run_coroutine_threadsafe(self._generate(request, seen), self._running())
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Stops the thread and waits for its end; calls that are still at work are cancelled."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()

    async def _loaded(self) -> Model:
        if self._model is None:
            self._model = self._make()
        return self._model

    async def _generate(
        self, request: GenerationRequest, seen: Callable[[tuple[int, ...]], None] | None
    ) -> Generation:
        model, reported = await self._loaded(), 0
        generating = asyncio.ensure_future(model.generate(request))
        try:
            while seen is not None and isinstance(model, ReportsTokens):
                await asyncio.wait([generating], timeout=_REPORT_SECONDS)
                if generating.done():
                    break
                token_ids = model.written(request.session)
                if len(token_ids) > reported:
                    seen(token_ids)
                    reported = len(token_ids)
            return await generating
        finally:
            if not generating.done():
                generating.cancel()
                await asyncio.wait([generating])
            model.release(request.session)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="upturn-engine", daemon=True)
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the loop until it is stopped; calls that are still at work are cancelled."""
    loop.run_forever()
    if tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks))
    loop.close()


class LocalUpstream:
    """Answers calls with a local model."""

    def __init__(  # noqa: PLR0913  what a version and its run decide
        self,
        generator: Generator,
        script: Callable[[], Script],
        *,
        model: str,
        temperature: float,
        sampling: SamplingSettings,
        max_length: Callable[[], int],
        applies_sampling: bool = True,
        default_max_tokens: int = DEFAULT_MAX_TOKENS,
    ) -> None:
        """``script`` and ``max_length``, the longest context in tokens, are called in a thread once.

        ``applies_sampling``: False = ``temperature`` and ``sampling`` hold for all calls, since training decides
        how its policy is sampled: a request's temperature, top-p, top-k and seed are counted in ``unapplied``.
        """
        self._generator = generator
        self._applies_sampling = applies_sampling
        self._default_max_tokens = default_max_tokens
        self.unapplied = Counter[str]()
        """Number of calls that asked for sampling that was not applied, by parameter."""
        self._make_script = script
        self._script: Script | None = None
        self._model = model
        self._temperature = temperature
        self._sampling = sampling
        self._find_length = max_length
        self._max_length = 0
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def open(self, call: UpstreamCall) -> AsyncIterator[Exchange]:
        """Generates the answer; raises UpstreamError for a conversation that the model cannot read."""
        try:
            refuse_unsupported(call)
            script = await self._ready()
            prompt = script.prompt(call.request)
            self._check_length(len(prompt.token_ids))
        except RequestError as exc:
            raise UpstreamError(str(exc), kind="status", status=exc.status, refusal=exc) from exc
        except UpstreamError:
            raise
        except ModelError as exc:
            raise UpstreamError(str(exc), kind="protocol") from exc
        rows: list[tuple[TokenRow, Drawn]] = []
        async with aclosing(self._events(call, script, prompt, rows)) as events:
            exchange = EventExchange(call, events, lambda: rows[0] if rows else None)
            await exchange.begin()
            yield exchange

    def _check_length(self, length: int) -> None:
        """Raises RequestError, in the words by which clients know that they have to shorten a conversation."""
        if length >= self._max_length:
            raise RequestError(
                f"prompt is too long: this model's maximum context length is {self._max_length} tokens with "
                f"the answer, and the conversation has {length} (environment.max_tokens of {self._model!r})",
                code="context_length_exceeded",
                field="messages",
            )

    async def _ready(self) -> Script:
        async with self._making:
            if self._script is None:
                self._max_length = await asyncio.to_thread(self._find_length)
                self._script = await asyncio.to_thread(self._make_script)
            return self._script

    async def _events(
        self, call: UpstreamCall, script: Script, prompt: Prompt, rows: list[tuple[TokenRow, Drawn]]
    ) -> AsyncGenerator[StreamEvent, None]:
        """The answer; text as it is sampled. ``rows`` gets the tokens before the last event."""
        request, loop = call.request, asyncio.get_running_loop()
        reports: asyncio.Queue[tuple[int, ...] | None] = asyncio.Queue()

        def seen(token_ids: tuple[int, ...]) -> None:
            with suppress(RuntimeError):  # the caller's loop has ended
                loop.call_soon_threadsafe(reports.put_nowait, token_ids)

        reads_early = request.is_streamed and not request.sampling.stop and not self._sampling.stop
        generation_request = self._request(request, script, prompt)
        generating = asyncio.ensure_future(
            self._generator.generate(generation_request, prompt.fork_cause, seen if reads_early else None)
        )
        generating.add_done_callback(lambda _: reports.put_nowait(None))
        yield StreamStart(call.answer_id, self._model, TokenUsage(len(prompt.token_ids)))
        sent = ""
        try:
            while (token_ids := await reports.get()) is not None:
                if script.is_readable_early(token_ids, request):
                    text = _settled(script.read(token_ids, request).parts)
                    if len(text) > len(sent) and text.startswith(sent):
                        yield TextDelta(text[len(sent) :])
                        sent = text
            generation = await generating
        finally:
            generating.cancel()
            await asyncio.gather(generating, return_exceptions=True)
        usage = TokenUsage(len(prompt.token_ids), len(generation.token_ids))
        written = script.read(generation.token_ids, request)
        # the agent's stop strings belong to its answers, the request's do not
        is_stopped = written.finish == "length" and generation.finish_reason == "stop"
        finish: FinishReason = "stop" if is_stopped else written.finish
        answer = ModelAnswer(call.answer_id, self._model, written.parts, finish, usage)
        drawn = Drawn(generation_request.temperature, generation_request.sampling.as_parameters())
        rows.append((_row(prompt.token_ids, generation), drawn))
        script.remember(prompt, generation.token_ids, request)
        for event in _unsent(answer_events(answer), sent):
            yield event

    @property
    def forks(self) -> Sequence[Fork]:
        """Why answered calls did not go on with an earlier one; the latest of them."""
        return () if self._script is None else self._script.forks

    @property
    def breaker_state(self) -> BreakerState | None:
        """None: a local model has no circuit breaker."""
        return None

    async def embed(self, body: bytes) -> Forwarded:  # noqa: ARG002  as in the protocol
        """Raises UpstreamError: local models make no embeddings."""
        raise UpstreamError(
            "local models make no embeddings; send the request to an agent of kind endpoint",
            kind="status",
            status=400,
        )

    async def close(self) -> None:
        """Closes the generator."""
        await self._generator.close()

    def _request(self, request: ModelRequest, script: Script, prompt: Prompt) -> GenerationRequest:
        number, wanted = self._generator.number(), request.sampling
        sampling = self._sampling
        if not self._applies_sampling:
            self.unapplied.update(name for name in _SAMPLING if getattr(wanted, name) is not None)
            wanted = Sampling(max_tokens=wanted.max_tokens, stop=wanted.stop)
        if wanted.top_p is not None:
            sampling = replace(sampling, top_p=wanted.top_p)
        if wanted.top_k is not None:
            sampling = replace(sampling, top_k=max(0, wanted.top_k))  # vLLM's -1 is all
        if wanted.stop:
            sampling = replace(sampling, stop=(*sampling.stop, *wanted.stop))
        room = self._max_length - len(prompt.token_ids)
        temperature = self._temperature if wanted.temperature is None else wanted.temperature
        return GenerationRequest(
            prompt_ids=prompt.token_ids,
            max_tokens=min(wanted.max_tokens or self._default_max_tokens, room),
            stop_ids=script.stop_ids,
            temperature=temperature if temperature >= _LEAST_TEMPERATURE else 0.0,
            session=f"call-{number}",
            order=(number, 0),
            seed=number if wanted.seed is None else wanted.seed,
            sampling=sampling,
        )


def refuse_unsupported(call: UpstreamCall) -> None:
    """Raises RequestError for what a request asks of a local model in vain."""
    request = call.request
    for name in ("presence_penalty", "frequency_penalty"):
        if value := getattr(request.sampling, name):
            raise _unsupported(name, value, "leave it out, or set it to 0")
    if request.output.kind != "text":
        cure = "ask for it in the prompt, or with a tool"
        raise _unsupported(_FORMAT_FIELDS[call.dialect.name], request.output.kind, cure)
    if request.tool_choice.kind in ("required", "named"):
        wanted = request.tool_choice.name or request.tool_choice.kind
        raise _unsupported("tool_choice", wanted, "leave it out, or set it to auto or none")
    asked = [name for name in (*_NEUTRAL, "include") if f'"{name}"'.encode() in call.body]
    body = (request_object(call.body) if asked else None) or {}
    for name in asked:
        value = body.get(name)
        if name == "include" and isinstance(value, list) and _LOGPROBS in value:
            raise _unsupported(name, _LOGPROBS, "leave it out")
        if name in _NEUTRAL and value is not None and value not in _NEUTRAL[name]:
            raise _unsupported(name, value, "leave it out")


def _unsupported(name: str, value: object, cure: str) -> RequestError:
    return RequestError(
        f"{name} = {value!r:.80} is not supported by models in this process; {cure}",
        code="unsupported",
        field=name,
    )


def script_for(renderer: Renderer, system: str) -> Script:
    """The script of a local model's renderer; ``system``: the agent's prompt, for conversations without one.

    Raises ModelError for a renderer of another kind.
    """
    if isinstance(renderer, ChatRenderer):
        return ChatScript(renderer, system)
    if isinstance(renderer, CompactRenderer):
        return CompactScript(renderer, system)
    raise ModelError(
        f"a {type(renderer).__name__} reads no model calls; a chat template or the compact grammar does"
    )


def _settled(parts: Sequence[Part]) -> str:
    """The start of an answer's text that more tokens do not change; empty while it has other parts, too.

    Bytes of an unfinished character, and blanks that may be the end, are left out.
    """
    (text,) = parts if len(parts) == 1 else (None,)
    return text.text.rstrip("\ufffd").rstrip() if isinstance(text, Text) else ""


def _unsent(events: Sequence[StreamEvent], sent: str) -> Iterator[StreamEvent]:
    """The events of an answer after its start and the text that was sent; a failure if it does not begin so."""
    rest = list(events[1:])
    if sent:
        first = rest[0]
        if not isinstance(first, TextDelta) or not first.text.startswith(sent):
            yield StreamFailure("the model's answer changed its form after its first tokens")
            return
        rest[:1] = [TextDelta(first.text[len(sent) :])] if first.text != sent else []
    yield from rest


def _row(prompt: tuple[int, ...], generation: Generation) -> TokenRow:
    count = len(generation.token_ids)
    return TokenRow(
        (*prompt, *generation.token_ids),
        (WrittenSpan(0, len(prompt), len(prompt) + count, generation.model_version),) if count else (),
        generation.logprobs,
        sampling_logprobs=generation.sampling_logprobs,
    )
