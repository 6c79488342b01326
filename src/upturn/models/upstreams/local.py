"""An upstream in this process: a local model behind the engine, with continuous batching.

The engine runs in a thread of its own with its own event loop, so that its passes do not delay other calls. Prompts
are rendered by the model's chat template, or in the compact grammar of the shipped model, which reads only the last
message of the user. The tokens are known, so every call is captured completely.

Not covered: images, structured output by schema, tokens as they are sampled (an answer is one part of its stream).
"""

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from upturn.config import SamplingSettings
from upturn.dialects import (
    FinishReason,
    Image,
    Message,
    ModelAnswer,
    ModelRequest,
    Part,
    Reasoning,
    RequestError,
    Text,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from upturn.errors import ModelError
from upturn.models.calls import Reading
from upturn.models.chat_template import ChatRenderer
from upturn.models.local import LocalModel
from upturn.models.model import Generation, GenerationRequest, Model
from upturn.models.renderer import CompactRenderer, Renderer
from upturn.models.upstreams.upstream import (
    BreakerState,
    CallOutcome,
    Exchange,
    Forwarded,
    UpstreamCall,
    UpstreamError,
)
from upturn.models.upstreams.whole_answer import WholeExchange
from upturn.records import Observation, TokenRow, WrittenSpan

DEFAULT_MAX_TOKENS = 256
"""Of answers to requests without a limit."""


class EngineThread:
    """A model with an event loop in a thread of its own. Started by the first call."""

    def __init__(self, model: Callable[[], Model]) -> None:
        """``model`` is called once, in the thread."""
        self._make = model
        self._model: Model | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def submit(self, request: GenerationRequest) -> "Future[Generation]":
        """A future with the generation; cancelling it frees the engine's slot."""
        return asyncio.run_coroutine_threadsafe(self._generate(request), self._running())

    def close(self) -> None:
        """Stops the thread."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    async def _generate(self, request: GenerationRequest) -> Generation:
        if self._model is None:
            self._model = self._make()
        try:
            return await self._model.generate(request)
        finally:
            self._model.release(request.session)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="upturn-engine", daemon=True).start()
            return self._loop


class Written(NamedTuple):
    """A generation as parts of an answer."""

    parts: tuple[Part, ...]
    finish: FinishReason


class Script(Protocol):
    """How a model reads conversations and writes answers."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer."""

    def prompt(self, request: ModelRequest, /) -> tuple[int, ...]:
        """The tokens of the conversation, up to where the model writes. Raises RequestError."""

    def read(self, token_ids: Sequence[int], request: ModelRequest, /) -> Written:
        """The answer in the model's output."""


class CompactScript:
    """The compact grammar: the user's last message, answered by one line."""

    def __init__(self, local: LocalModel, system: str) -> None:
        self._renderer = CompactRenderer(local.tokenizer)
        self._system = system

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The grammar's end token."""
        return self._renderer.stop_ids

    def prompt(self, request: ModelRequest) -> tuple[int, ...]:
        """Only the last message of the user fits into the grammar."""
        if request.tools:
            raise RequestError("this model has no tools; route requests with tools to another", field="tools")
        texts = [_plain_text(message) for message in request.messages if message.role == "user"]
        if not texts:
            raise RequestError("messages has no message of the user", field="messages")
        return self._renderer.open(Observation(texts[-1]), self._system)

    def read(self, token_ids: Sequence[int], request: ModelRequest) -> Written:  # noqa: ARG002  as in the protocol
        """The line as text."""
        output = self._renderer.read(token_ids)
        is_ended = bool(token_ids) and token_ids[-1] in self.stop_ids
        return Written((Text(output.text),), "stop" if is_ended else "length")


class ChatScript:
    """A chat template: all messages, tools and calls in the model's own format."""

    def __init__(self, local: LocalModel, renderer: ChatRenderer, system: str) -> None:
        self._tokenizer: Any = local.chat  # transformers' tokenizers are untyped here
        self._renderer = renderer
        self._system = system

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The template's end tokens."""
        return self._renderer.stop_ids

    def prompt(self, request: ModelRequest) -> tuple[int, ...]:
        """The conversation as the template renders it."""
        if request.tools and not self._renderer.profile.lists_tools:
            raise RequestError("this model's chat template lists no tools", field="tools")
        messages = [line for message in request.messages for line in _template_lines(message)]
        if self._system and request.messages[0].role != "system":
            messages.insert(0, {"role": "system", "content": self._system})
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters) or {"type": "object", "properties": {}},
                },
            }
            for tool in request.tools
        ]
        try:
            ids = self._tokenizer.apply_chat_template(
                messages, tools=tools or None, add_generation_prompt=True, tokenize=True, return_dict=False
            )
        except Exception as exc:  # a template's own errors have any type
            raise RequestError(
                f"the model's chat template refuses these messages: {exc}", field="messages"
            ) from exc
        return tuple(ids)

    def read(self, token_ids: Sequence[int], request: ModelRequest) -> Written:
        """Text, thoughts between ``<think>`` tags, and calls in the template's format."""
        is_ended = bool(token_ids) and token_ids[-1] in self.stop_ids
        body = list(token_ids[:-1] if is_ended else token_ids)
        text: str = self._tokenizer.decode(body, skip_special_tokens=False)
        parts: list[Part] = []
        if "</think>" in text:
            thought, _, text = text.partition("</think>")
            parts.append(Reasoning(thought.replace("<think>", "").strip()))
        reading = self._renderer.profile.calls.read(text) if request.tools and is_ended else None
        if isinstance(reading, Reading):
            if reading.thought:
                parts.append(Text(reading.thought))
            parts += [
                ToolCall(f"call_{number}", call.name, json.dumps(call.arguments, ensure_ascii=False))
                for number, call in enumerate(reading.calls)
            ]
            return Written(tuple(parts), "tool_calls")
        parts.append(Text(self._renderer.profile.calls.plain_text(text).strip()))
        return Written(tuple(parts), "stop" if is_ended else "length")


def script_for(local: LocalModel, renderer: Renderer, system: str) -> Script:
    """The script of a model; ``system``: the agent's prompt, for conversations without one."""
    if isinstance(renderer, ChatRenderer):
        return ChatScript(local, renderer, system)
    return CompactScript(local, system)


class LocalUpstream:
    """Answers calls with a local model."""

    def __init__(
        self,
        engine: EngineThread,
        script: Callable[[], Script],
        *,
        model: str,
        temperature: float,
        sampling: SamplingSettings,
        max_length: Callable[[], int],
    ) -> None:
        """``script`` and ``max_length``, the longest context in tokens, are called in a thread once."""
        self._engine = engine
        self._make_script = script
        self._script: Script | None = None
        self._model = model
        self._temperature = temperature
        self._sampling = sampling
        self._find_length = max_length
        self._max_length = 0
        self._numbers = itertools.count()

    @asynccontextmanager
    async def open(self, call: UpstreamCall) -> AsyncIterator[Exchange]:
        """Generates the whole answer; raises UpstreamError for a conversation that the model cannot read."""
        if self._script is None:
            self._script = await asyncio.to_thread(self._make_script)
            self._max_length = await asyncio.to_thread(self._find_length)
        script, started = self._script, perf_counter()
        try:
            prompt = script.prompt(call.request)
        except RequestError as exc:
            raise UpstreamError(str(exc), kind="status", status=400) from exc
        if len(prompt) >= self._max_length:
            raise UpstreamError(
                f"the conversation has {len(prompt)} tokens; {self._model!r} reads fewer than {self._max_length} "
                "(environment.max_tokens)",
                kind="status",
                status=400,
            )
        try:
            generation = await asyncio.wrap_future(self._engine.submit(self._request(call.request, script, prompt)))
        except ModelError as exc:
            raise UpstreamError(str(exc), kind="protocol") from exc
        written = script.read(generation.token_ids, call.request)
        seconds = perf_counter() - started
        yield _exchange(call, written, prompt, generation, model=self._model, seconds=seconds)

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
        """Stops the engine's thread."""
        self._engine.close()

    def _request(self, request: ModelRequest, script: Script, prompt: tuple[int, ...]) -> GenerationRequest:
        number, wanted = next(self._numbers), request.sampling
        sampling = self._sampling
        if wanted.top_p is not None:
            sampling = replace(sampling, top_p=wanted.top_p)
        if wanted.top_k is not None:
            sampling = replace(sampling, top_k=wanted.top_k)
        if wanted.stop:
            sampling = replace(sampling, stop=(*sampling.stop, *wanted.stop))
        room = self._max_length - len(prompt)
        return GenerationRequest(
            prompt_ids=prompt,
            max_tokens=min(wanted.max_tokens or DEFAULT_MAX_TOKENS, room),
            stop_ids=script.stop_ids,
            temperature=self._temperature if wanted.temperature is None else wanted.temperature,
            session=f"call-{number}",
            order=(number, 0),
            seed=number if wanted.seed is None else wanted.seed,
            sampling=sampling,
        )


def _exchange(
    call: UpstreamCall,
    written: Written,
    prompt: tuple[int, ...],
    generation: Generation,
    *,
    model: str,
    seconds: float,
) -> WholeExchange:
    usage = TokenUsage(len(prompt), len(generation.token_ids))
    answer = ModelAnswer(call.answer_id, model, written.parts, written.finish, usage)
    span = WrittenSpan(0, len(prompt), len(prompt) + len(generation.token_ids))
    row = TokenRow(
        (*prompt, *generation.token_ids),
        (span,) if generation.token_ids else (),
        generation.logprobs,
        sampling_logprobs=generation.sampling_logprobs,
    )
    return WholeExchange(call, answer, CallOutcome(answer, "", usage, seconds, row))


def _plain_text(message: Message) -> str:
    if any(isinstance(part, Image) for part in message.parts):
        raise RequestError("this model reads no images", field="messages")
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def _template_lines(message: Message) -> list[dict[str, Any]]:
    """The message in the form that chat templates expect; one line for each result of a call."""
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if results:
        return [
            {
                "role": "tool",
                "tool_call_id": part.call_id,
                "content": "".join(inner.text for inner in part.parts if isinstance(inner, Text)),
            }
            for part in results
        ]
    line: dict[str, Any] = {"role": message.role, "content": _plain_text(message)}
    if thought := "".join(part.text for part in message.parts if isinstance(part, Reasoning)):
        line["reasoning_content"] = thought
    if calls := [part for part in message.parts if isinstance(part, ToolCall)]:
        line["tool_calls"] = [
            {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": _object(part)}}
            for part in calls
        ]
    return [line]


def _object(call: ToolCall) -> Any:  # Any: a JSON border
    try:
        return json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return call.arguments
