"""An upstream in this process: a local model behind the engine, with continuous batching.

The engine runs in a thread of its own with its own event loop, so that its passes do not delay other calls. Prompts
are rendered by the model's chat template, or in the compact grammar of the shipped model, which reads only the last
message of the user. The tokens are known, so every call is captured completely. Text is streamed as it is sampled,
except where its reading can change later: with tools, stop strings, or a thought that has not ended.

Not covered: images, structured output by schema.
"""

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

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
    StreamEvent,
    StreamFailure,
    StreamStart,
    Text,
    TextDelta,
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
from upturn.models.upstreams.answer_events import answer_events
from upturn.models.upstreams.event_exchange import EventExchange
from upturn.models.upstreams.upstream import Exchange, UpstreamCall, UpstreamError
from upturn.records import Observation, TokenRow, WrittenSpan

DEFAULT_MAX_TOKENS = 256
"""Of answers to requests without a limit."""


_REPORT_SECONDS = 0.02
"""Between two reports of the tokens so far."""


@runtime_checkable
class ReportsTokens(Protocol):
    """A model that knows the tokens of calls that run."""

    def written(self, session: str) -> tuple[int, ...]:
        """All tokens that the session's call has so far."""


class EngineThread:
    """A model with an event loop in a thread of its own. Started by the first call."""

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

    def submit(
        self, request: GenerationRequest, seen: Callable[[tuple[int, ...]], None] | None = None
    ) -> "Future[Generation]":
        """A future with the generation; cancelling it frees the engine's slot.

        ``seen`` is called in the thread with all tokens so far, again and again, if the model reports them.
        """
        return asyncio.run_coroutine_threadsafe(self._generate(request, seen), self._running())

    def close(self) -> None:
        """Stops the thread and waits for its end; calls that are still at work are cancelled."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()

    async def _generate(
        self, request: GenerationRequest, seen: Callable[[tuple[int, ...]], None] | None
    ) -> Generation:
        if self._model is None:
            self._model = self._make()
        model, reported = self._model, 0
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

    def is_readable_early(self, token_ids: Sequence[int], request: ModelRequest, /) -> bool:
        """Whether ``read`` of an output that begins so begins with the text that it has so far."""


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

    def is_readable_early(self, token_ids: Sequence[int], request: ModelRequest) -> bool:  # noqa: ARG002
        """Always."""
        return True


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

    def is_readable_early(self, token_ids: Sequence[int], request: ModelRequest) -> bool:
        """Not with tools, whose calls are text; for a model that thinks, only after the thought."""
        if request.tools:
            return False
        end: int | None = self._tokenizer.get_vocab().get("</think>")
        return end is None or end in token_ids


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
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def open(self, call: UpstreamCall) -> AsyncIterator[Exchange]:
        """Generates the answer; raises UpstreamError for a conversation that the model cannot read."""
        try:
            script = await self._ready()
            prompt = script.prompt(call.request)
        except RequestError as exc:
            raise UpstreamError(str(exc), kind="status", status=400) from exc
        except UpstreamError:
            raise
        except ModelError as exc:
            raise UpstreamError(str(exc), kind="protocol") from exc
        if len(prompt) >= self._max_length:
            raise UpstreamError(
                f"the conversation has {len(prompt)} tokens; {self._model!r} reads fewer than {self._max_length} "
                "(environment.max_tokens)",
                kind="status",
                status=400,
            )
        rows: list[TokenRow] = []
        async with aclosing(self._events(call, script, prompt, rows)) as events:
            exchange = EventExchange(call, events, lambda: rows[0] if rows else None)
            await exchange.begin()
            yield exchange

    async def _ready(self) -> Script:
        async with self._making:
            if self._script is None:
                self._max_length = await asyncio.to_thread(self._find_length)
                self._script = await asyncio.to_thread(self._make_script)
            return self._script

    async def _events(
        self, call: UpstreamCall, script: Script, prompt: tuple[int, ...], rows: list[TokenRow]
    ) -> AsyncGenerator[StreamEvent, None]:
        """The answer; text as it is sampled. ``rows`` gets the tokens before the last event."""
        request, loop = call.request, asyncio.get_running_loop()
        reports: asyncio.Queue[tuple[int, ...] | None] = asyncio.Queue()

        def seen(token_ids: tuple[int, ...]) -> None:
            with suppress(RuntimeError):  # the caller's loop has ended
                loop.call_soon_threadsafe(reports.put_nowait, token_ids)

        reads_early = request.is_streamed and not request.sampling.stop and not self._sampling.stop
        generation_request = self._request(request, script, prompt)
        generating = asyncio.wrap_future(self._engine.submit(generation_request, seen if reads_early else None))
        generating.add_done_callback(lambda _: reports.put_nowait(None))
        yield StreamStart(call.answer_id, self._model, TokenUsage(len(prompt)))
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
        usage = TokenUsage(len(prompt), len(generation.token_ids))
        written = script.read(generation.token_ids, request)
        answer = ModelAnswer(call.answer_id, self._model, written.parts, written.finish, usage)
        rows.append(_row(prompt, generation))
        for event in _unsent(answer_events(answer), sent):
            yield event

    async def close(self) -> None:
        """Stops the engine's thread."""
        await asyncio.to_thread(self._engine.close)

    def _request(self, request: ModelRequest, script: Script, prompt: tuple[int, ...]) -> GenerationRequest:
        number, wanted = self._engine.number(), request.sampling
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
        (WrittenSpan(0, len(prompt), len(prompt) + count),) if count else (),
        generation.logprobs,
        sampling_logprobs=generation.sampling_logprobs,
    )


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
