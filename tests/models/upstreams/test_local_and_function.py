"""Local models and Python functions as upstreams: streams as they are written, captured tokens, departures."""

import asyncio
import json
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
import torch

from tests.models.upstreams.raw_server import call_of
from upturn.config import FULL_DISTRIBUTION
from upturn.dialects import ModelAnswer, ModelRequest, Text, TokenUsage
from upturn.errors import ModelError
from upturn.models import Generation, GenerationRequest, Model, load_local
from upturn.models.engine import LocalEngine
from upturn.models.local import LocalModel
from upturn.models.upstreams import (
    Answering,
    CallOutcome,
    Chunk,
    Drawn,
    EngineThread,
    FunctionUpstream,
    LocalUpstream,
    Upstream,
    UpstreamCall,
    UpstreamError,
    script_for,
)
from upturn.records import Action

Running: TypeAlias = Callable[[Callable[[], Model]], EngineThread]


async def answered(upstream: Upstream, call: UpstreamCall) -> tuple[list[Chunk], CallOutcome]:
    """The chunks, and the outcome at the chunk that ends the answer."""
    async with upstream.open(call) as exchange:
        chunks = [chunk async for chunk in exchange.chunks()]
        return chunks, exchange.outcome


def texts(chunks: list[Chunk]) -> list[str]:
    """The text of each event of a stream of chat completions that has any."""
    events = b"".join(chunk.content for chunk in chunks).decode().split("\n\n")
    bodies = [json.loads(event.removeprefix("data: ")) for event in events if event and "[DONE]" not in event]
    return [text for body in bodies if (text := body["choices"][0]["delta"].get("content"))]


@pytest.fixture(scope="module")
def nano() -> LocalModel:
    return load_local("nano")


@pytest.fixture
def running() -> Iterator[Running]:
    """Makes engine threads that are closed after the test."""
    with ExitStack() as stack:

        def start(model: Callable[[], Model]) -> EngineThread:
            thread = EngineThread(model)
            stack.callback(lambda: asyncio.run(thread.close()))
            return thread

        yield start


@pytest.fixture
def engine(nano: LocalModel, running: Running) -> EngineThread:
    torch.set_num_threads(1)
    return running(lambda: LocalEngine(nano.model, slots=4, max_length=512, tokenizer=nano.tokenizer))


def local(nano: LocalModel, engine: EngineThread, temperature: float = 0.0) -> LocalUpstream:
    return LocalUpstream(
        engine,
        lambda: script_for(nano.renderer(), ""),
        model="nano@base",
        temperature=temperature,
        sampling=FULL_DISTRIBUTION,
        max_length=lambda: 512,
    )


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_a_local_model_answers_the_same_streamed_and_whole(
    nano: LocalModel, engine: EngineThread, dialect: str
) -> None:
    async def run() -> None:
        upstream = local(nano, engine)
        whole, outcome = await answered(upstream, call_of(dialect, answer_id="ours-1"))
        streamed, same = await answered(upstream, call_of(dialect, is_streamed=True, answer_id="ours-1"))
        assert outcome.answer == same.answer
        assert outcome.answer is not None
        assert outcome.tokens is not None
        assert same.tokens is not None
        assert outcome.tokens.token_ids == same.tokens.token_ids
        assert same.tokens.logprobs == pytest.approx(outcome.tokens.logprobs, abs=1e-4)  # another cached prefix
        assert outcome.usage is not None
        span = outcome.tokens.spans[0]
        assert span.model_version != ""
        assert outcome.drawn == same.drawn == Drawn(0.0)
        assert (span.start, span.stop) == (outcome.usage.input, outcome.usage.input + outcome.usage.output)
        assert len(outcome.tokens.logprobs) == outcome.usage.output
        renderer = nano.renderer()
        written = renderer.read(outcome.tokens.token_ids[span.start :]).text
        assert outcome.answer.parts == (Text(written),)
        assert b"ours-1" in whole[0].content
        assert streamed[-1].is_end
        if dialect == "chat":
            assert "".join(texts(streamed)) == written

    asyncio.run(run())


def test_a_temperature_near_zero_is_zero(nano: LocalModel, engine: EngineThread) -> None:
    async def run() -> None:
        upstream = local(nano, engine, temperature=1.0)
        answers = [(await answered(upstream, call_of(temperature=value)))[1].answer for value in (0, 1e-320)]
        assert answers[0] is not None
        assert answers[1] is not None
        assert answers[0].parts == answers[1].parts

    asyncio.run(run())


class Slow:
    """A model that writes the tokens of its prompt again, one each time a test allows it."""

    def __init__(self) -> None:
        self.allowed = threading.Semaphore(0)
        self.is_asked = False
        self.so_far: dict[str, tuple[int, ...]] = {}
        self.released: list[str] = []

    def written(self, session: str) -> tuple[int, ...]:
        return self.so_far.get(session, ())

    def release(self, session: str) -> None:
        self.released.append(session)

    async def generate(self, request: GenerationRequest) -> Generation:
        output = request.prompt_ids[1:-1]
        self.is_asked = True
        for count in range(1, len(output) + 1):
            while not self.allowed.acquire(blocking=False):
                await asyncio.sleep(0.001)
            self.so_far[request.session] = output[:count]
        if "fail" in self.so_far:
            raise ModelError("out of memory")
        return Generation(output, (-0.1,) * len(output), "length", "v1")


def test_text_of_a_local_model_is_sent_while_it_is_sampled(nano: LocalModel, running: Running) -> None:
    async def run() -> None:
        model = Slow()
        engine = running(lambda: model)
        upstream, sent = local(nano, engine), []
        text = "send the mail to Bob"
        call = call_of(is_streamed=True, messages=[{"role": "user", "content": text}])
        model.allowed.release()
        async with asyncio.timeout(60), upstream.open(call) as exchange:
            async for chunk in exchange.chunks():
                sent.append(chunk)
                if texts([chunk]):
                    model.allowed.release()  # the next token is sampled only after the client has this one
        assert len(texts(sent)) > 3
        answer = exchange.outcome.answer
        assert answer is not None
        assert answer.parts == (Text("".join(texts(sent))),)
        assert answer.finish == "length"
        assert model.released == ["call-0"]

    asyncio.run(run())


@pytest.mark.parametrize("is_begun", [False, True])
def test_the_engine_stops_when_the_client_leaves(nano: LocalModel, running: Running, is_begun: bool) -> None:
    async def run() -> None:
        model = Slow()
        engine = running(lambda: model)
        call = call_of(is_streamed=True, messages=[{"role": "user", "content": "send the mail to Bob"}])
        if is_begun:
            model.allowed.release()
        task = asyncio.ensure_future(answered(local(nano, engine), call))
        async with asyncio.timeout(60):
            while not (model.so_far if is_begun else model.is_asked):
                await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            while not model.released:
                await asyncio.sleep(0.001)

    asyncio.run(run())


def test_a_local_model_that_fails_is_an_error_for_a_fallback(nano: LocalModel, running: Running) -> None:
    async def run() -> None:
        model = Slow()
        model.so_far["fail"] = ()
        engine = running(lambda: model)
        for _ in range(99):
            model.allowed.release()
        with pytest.raises(UpstreamError, match="out of memory"):
            await answered(local(nano, engine), call_of())

    asyncio.run(run())


def test_a_conversation_that_does_not_fit_is_the_fault_of_the_request(
    nano: LocalModel, engine: EngineThread
) -> None:
    async def run() -> None:
        call = call_of(messages=[{"role": "user", "content": "word " * 600}])
        with pytest.raises(UpstreamError, match="maximum context length is 512 tokens") as caught:
            await answered(local(nano, engine), call)
        assert caught.value.is_fault_of_request
        error = pickle.loads(pickle.dumps(caught.value)).as_request_error()
        assert (error.status, error.code, error.field) == (400, "context_length_exceeded", "messages")

    asyncio.run(run())


class Recording:
    """A Generator that keeps its requests, and answers with the tokens of one line."""

    def __init__(self, token_ids: tuple[int, ...]) -> None:
        self.token_ids = token_ids
        self.requests: list[tuple[GenerationRequest, str | None]] = []
        self.is_closed = False

    def number(self) -> int:
        return len(self.requests)

    async def generate(
        self,
        request: GenerationRequest,
        fork_cause: str | None,
        seen: Callable[[tuple[int, ...]], None] | None,
    ) -> Generation:
        self.requests.append((request, fork_cause))
        for count in range(1, len(self.token_ids)):
            if seen is not None:
                seen(self.token_ids[:count])
                await asyncio.sleep(0)
        return Generation(self.token_ids, (-0.5,) * len(self.token_ids), "stop", "v1")

    async def close(self) -> None:
        self.is_closed = True


def test_any_generator_answers_and_decides_how_its_tokens_are_drawn(nano: LocalModel) -> None:
    async def run() -> None:
        renderer = nano.renderer()
        sampled = renderer.write(Action("mail", "move", {"id": "m27"}))
        generator = Recording(sampled)
        upstream = LocalUpstream(
            generator,
            lambda: script_for(renderer, ""),
            model="nano",
            temperature=1.0,
            sampling=FULL_DISTRIBUTION,
            max_length=lambda: 512,
            applies_sampling=False,
        )
        wishes: dict[str, Any] = {
            "temperature": 0.2,
            "top_p": 0.5,
            "top_k": 3,
            "seed": 7,
            "stop": ["x"],
            "max_tokens": 30,
        }
        _, outcome = await answered(upstream, call_of(**wishes))
        assert outcome.answer is not None
        assert outcome.answer.parts == (Text("mail.move id=m27"),)
        assert outcome.tokens is not None
        assert outcome.tokens.token_ids[-len(sampled) :] == sampled
        sent, _ = await answered(upstream, call_of(is_streamed=True, temperature=1.0))
        assert "".join(texts(sent)) == "mail.move id=m27"
        assert len(texts(sent)) > 1
        (request, cause), (plain, _) = generator.requests
        assert cause is None
        assert (request.temperature, request.seed, request.max_tokens) == (1.0, 0, 30)
        assert request.sampling == replace(FULL_DISTRIBUTION, stop=("x",))
        assert plain.sampling == FULL_DISTRIBUTION
        assert upstream.unapplied == {"temperature": 2, "top_p": 1, "top_k": 1, "seed": 1}
        await upstream.close()
        assert generator.is_closed

    asyncio.run(run())


def recording(nano: LocalModel, generator: Recording, stop: tuple[str, ...] = ()) -> LocalUpstream:
    return LocalUpstream(
        generator,
        lambda: script_for(nano.renderer(), ""),
        model="nano",
        temperature=1.0,
        sampling=replace(FULL_DISTRIBUTION, stop=stop),
        max_length=lambda: 512,
    )


@pytest.mark.parametrize(
    ("dialect", "body", "field", "message"),
    [
        ("chat", {"presence_penalty": 0.5}, "presence_penalty", "presence_penalty = 0.5"),
        ("chat", {"frequency_penalty": -1}, "frequency_penalty", "leave it out, or set it to 0"),
        ("chat", {"logprobs": True}, "logprobs", "logprobs = True is not supported by models in this process"),
        ("chat", {"top_logprobs": 3}, "top_logprobs", "top_logprobs = 3"),
        ("chat", {"logit_bias": {"11": -100}}, "logit_bias", "logit_bias"),
        ("chat", {"min_p": 0.1}, "min_p", "min_p = 0.1"),
        ("chat", {"response_format": {"type": "json_object"}}, "response_format", "ask for it in the prompt"),
        ("chat", {"tool_choice": "required"}, "tool_choice", "set it to auto or none"),
        (
            "chat",
            {"tool_choice": {"type": "function", "function": {"name": "find"}}},
            "tool_choice",
            "tool_choice = 'find'",
        ),
        ("responses", {"include": ["message.output_text.logprobs"]}, "include", "logprobs"),
        ("responses", {"top_logprobs": 2}, "top_logprobs", "top_logprobs = 2"),
        (
            "responses",
            {"text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}}},
            "text.format",
            "'schema'",
        ),
        ("messages", {"tool_choice": {"type": "any"}}, "tool_choice", "tool_choice = 'required'"),
    ],
)
def test_what_a_local_model_cannot_do_is_refused_by_name(
    nano: LocalModel, dialect: str, body: dict[str, Any], field: str, message: str
) -> None:
    async def run() -> None:
        generator = Recording((1,))
        with pytest.raises(UpstreamError) as caught:
            await answered(recording(nano, generator), call_of(dialect, **body))
        error = caught.value.as_request_error()
        assert (error.status, error.code, error.field) == (400, "unsupported", field)
        assert message in str(error)
        assert not generator.requests

    asyncio.run(run())


def test_values_that_change_nothing_are_no_reason_to_refuse(nano: LocalModel) -> None:
    async def run() -> None:
        neutral: dict[str, Any] = {
            "presence_penalty": 0,
            "frequency_penalty": None,
            "logprobs": False,
            "top_logprobs": 0,
            "logit_bias": {},
            "n": 1,
            "repetition_penalty": 1.0,
            "response_format": {"type": "text"},
            "tool_choice": "auto",
            "top_k": -1,
            "user": "logprobs",
        }
        generator = Recording((1,))
        await answered(recording(nano, generator), call_of(**neutral))
        assert generator.requests[0][0].sampling == FULL_DISTRIBUTION

    asyncio.run(run())


def test_a_stop_string_ends_the_answer_and_is_no_part_of_it(nano: LocalModel) -> None:
    async def run() -> None:
        written = tuple(nano.tokenizer.encode("mail.open id=m27", add_special_tokens=False).ids)
        generator = Recording(written)
        upstream = recording(nano, generator)
        _, outcome = await answered(upstream, call_of(stop=["=m27"]))
        assert outcome.answer is not None
        assert (outcome.answer.parts, outcome.answer.finish) == ((Text("mail.open id"),), "stop")
        assert outcome.tokens is not None
        assert outcome.tokens.token_ids[-len(written) :] == written
        # the conversation goes on with all of them
        messages = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "mail.open id"},
            {"role": "user", "content": "go on"},
        ]
        first = generator.requests[0][0].prompt_ids
        await answered(upstream, call_of(messages=messages))
        assert generator.requests[1][0].prompt_ids[: len(first) + len(written)] == (*first, *written)
        # the agent's own stop strings belong to its answers
        _, outcome = await answered(recording(nano, Recording(written), ("m27",)), call_of())
        assert outcome.answer is not None
        assert (outcome.answer.parts, outcome.answer.finish) == ((Text("mail.open id=m27"),), "stop")

    asyncio.run(run())


def test_upstreams_that_share_a_model_share_no_session(nano: LocalModel, running: Running) -> None:
    async def run() -> None:
        model = Slow()
        engine = running(lambda: model)
        for _ in range(99):
            model.allowed.release()
        await asyncio.gather(*(answered(local(nano, engine), call_of()) for _ in range(2)))
        assert sorted(model.released) == ["call-0", "call-1"]

    asyncio.run(run())


async def _coroutine(request: ModelRequest) -> str:
    return f"hello {request.model}"


async def _parts(_request: ModelRequest) -> AsyncIterator[str]:
    for text in ("hel", "lo ", "route"):
        await asyncio.sleep(0)
        yield text


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda request: f"hello {request.model}", ["hello route"]),
        (_coroutine, ["hello route"]),
        (_parts, ["hel", "lo ", "route"]),
        (lambda _: ModelAnswer("", "m", (Text("hello route"),), "stop", TokenUsage(3, 2)), ["hello route"]),
    ],
)
def test_functions_answer_with_text_parts_or_a_whole_answer(function: Answering, parts: list[str]) -> None:
    async def run() -> None:
        upstream = FunctionUpstream(function, "f")
        streamed, outcome = await answered(upstream, call_of(is_streamed=True, answer_id="ours-1"))
        assert texts(streamed) == parts
        assert [chunk.is_end for chunk in streamed] == [False] * (len(streamed) - 1) + [True]
        (whole,), same = await answered(upstream, call_of(answer_id="ours-1"))
        assert json.loads(whole.content)["choices"][0]["message"]["content"] == "hello route"
        assert outcome.answer == same.answer
        assert outcome.answer is not None
        assert (outcome.answer.id, outcome.failure) == ("ours-1", "")

    asyncio.run(run())


async def _breaks(_request: ModelRequest) -> AsyncIterator[str]:
    yield "hel"
    raise ValueError("no more")


def _raises(_request: ModelRequest) -> str:
    raise ValueError("no more")


@pytest.mark.parametrize(
    ("function", "message"),
    [(_raises, "f raised ValueError: no more"), (lambda _: 5, "f returned int; a str or a")],
)
def test_a_function_that_fails_is_an_error_for_a_fallback(function: Any, message: str) -> None:
    with pytest.raises(UpstreamError, match=message):
        asyncio.run(answered(FunctionUpstream(function, "f"), call_of(is_streamed=True)))


def test_slow_functions_leave_the_threads_of_others_free() -> None:
    entered, resume = threading.Semaphore(0), threading.Event()

    def slow(_request: ModelRequest) -> str:
        entered.release()
        assert resume.wait(timeout=30)
        return "late"

    async def run() -> list[Any]:
        upstream = FunctionUpstream(slow, "f")
        calls = [asyncio.ensure_future(answered(upstream, call_of())) for _ in range(40)]  # more than a loop has
        have_entered = await asyncio.gather(*(asyncio.to_thread(entered.acquire, timeout=30) for _ in calls))
        assert all(have_entered), "all functions run at once, and the loop's own threads still serve"
        resume.set()
        answers = [outcome.answer for _, outcome in await asyncio.gather(*calls)]
        await upstream.close()
        return [answer.parts for answer in answers if answer is not None]

    assert asyncio.run(run()) == [(Text("late"),)] * 40


def test_a_function_that_breaks_off_ends_its_stream_with_an_error() -> None:
    streamed, outcome = asyncio.run(answered(FunctionUpstream(_breaks, "f"), call_of(is_streamed=True)))
    assert b"no more" in streamed[-1].content
    assert b"[DONE]" not in streamed[-1].content
    assert "f raised ValueError: no more" in outcome.failure
    with pytest.raises(UpstreamError, match="no more"):
        asyncio.run(answered(FunctionUpstream(_breaks, "f"), call_of()))
