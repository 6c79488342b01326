"""Programs on a local model: their tokens are those of the rollout, whatever their clients do."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from upturn.agents import Attempt, RolloutRequest, Setting, build, rollout
from upturn.agents.program import captured_calls, continuity, program_rows
from upturn.config import Limits, SamplingSettings
from upturn.environments import one_step
from upturn.models import GLUE, Generation, GenerationRequest, load_local
from upturn.models.engine import LocalEngine
from upturn.models.upstreams import script_for
from upturn.records import Action, AgentVersion, Observation, Trajectory

KIT = one_step(
    "say", lambda rng: (f"say {rng.choice(['red', 'blue'])}", {}), lambda action, _: bool(action.parameters)
)
TASK = next(KIT.tasks(seed=3, split="train", families=["say"]))
NANO = load_local("nano")
RENDERER = NANO.renderer()
VERSION = AgentVersion("mine", "1", "program", model="nano", parameters={"import_path": f"{__name__}:program"})


class RecordingEngine(LocalEngine):
    """Keeps its own record of what it was asked and what it returned."""

    def __init__(self) -> None:
        super().__init__(NANO.model, slots=8, max_length=256, tokenizer=NANO.tokenizer)
        self.record: list[tuple[GenerationRequest, Generation]] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        generation = await super().generate(request)
        self.record.append((request, generation))
        return generation


class Program:
    """The program of the current test."""

    work: Callable[[Attempt], Any]


async def program(attempt: Attempt) -> Any:
    return await Program.work(attempt)


def run(work: Callable[[Attempt], Any], **changes: Any) -> tuple[Trajectory, RecordingEngine]:
    """One rollout of the program, at temperature 1."""
    Program.work = staticmethod(work)
    engine = RecordingEngine()
    agent = build(VERSION, limits=Limits(max_tokens=256), renderer=RENDERER)
    setting = Setting("k", agent, VERSION.id, engine, limits=Limits(max_tokens=256), seed=1)
    return asyncio.run(rollout(RolloutRequest(TASK, 0, 0), KIT.environment, replace(setting, **changes))), engine


async def ask(
    attempt: Attempt, *messages: dict[str, Any] | str, headers: dict[str, str] | None = None, **more: Any
) -> httpx2.Response:
    said = [{"role": "user", "content": message} if isinstance(message, str) else message for message in messages]
    async with httpx2.AsyncClient(timeout=30) as client:
        return await client.post(
            f"{attempt.base_url}/chat/completions",
            json={"model": "any", "messages": said, "max_tokens": 8} | more,
            headers={"authorization": f"Bearer {attempt.api_key}"} | (headers or {}),
        )


def message_of(response: httpx2.Response) -> dict[str, Any]:
    message: dict[str, Any] = response.json()["choices"][0]["message"]
    return message


async def converse(attempt: Attempt) -> Action:
    """Three calls that continue one another."""
    messages: list[Any] = [{"role": "user", "content": attempt.task}]
    for number in range(3):
        messages.append(message_of(await ask(attempt, *messages)))
        messages.append({"role": "user", "content": f"result {number}"})
    return Action("user", "answer", {"text": "x"})


def test_a_conversation_is_one_row_of_the_tokens_that_were_sampled() -> None:
    trajectory, engine = run(converse)
    assert (trajectory.outcome, trajectory.origin, trajectory.temperature) == ("finished", "sampled", 1.0)
    (row,) = trajectory.rows
    assert [span.turn for span in row.spans] == [0, 1, 2]
    for span, (request, generation) in zip(row.spans, engine.record, strict=True):
        assert row.token_ids[: span.start] == request.prompt_ids
        assert row.token_ids[span.start : span.stop] == generation.token_ids
    assert row.logprobs == tuple(value for _, generation in engine.record for value in generation.logprobs)
    assert trajectory.model_version == engine.version
    opening = RENDERER.open(trajectory.turns[0].observation, "")
    assert row.token_ids[: len(opening)] == opening
    assert [turn.text for turn in trajectory.turns] == [
        RENDERER.read(row.token_ids[span.start : span.stop]).text for span in row.spans
    ]
    assert [turn.observation.text for turn in trajectory.turns] == [TASK.instruction, "result 0", "result 1"]
    assert trajectory.turns[2].action == Action("user", "answer", {"text": "x"})
    assert {request.session for request, _ in engine.record} == {trajectory.id}
    assert (trajectory.usage.prompt_tokens + trajectory.usage.written_tokens) == len(row.token_ids)


def test_a_side_call_begins_a_row_with_its_cause() -> None:
    async def work(attempt: Attempt) -> str:
        first = message_of(await ask(attempt, {"role": "system", "content": "a"}, attempt.task))
        await ask(attempt, {"role": "system", "content": "You summarise."}, "Sum it up.")
        await ask(attempt, {"role": "system", "content": "a"}, attempt.task, first, "Go on.")
        return ""

    trajectory, _ = run(work)
    assert [row.fork_cause for row in trajectory.rows] == [None, "new_conversation"]
    assert [[span.turn for span in row.spans] for row in trajectory.rows] == [[0, 2], [1]]


def test_a_marked_retry_gets_the_first_answer_and_an_equal_call_another() -> None:
    bodies: list[bytes] = []

    async def work(attempt: Attempt) -> str:
        for count in ("", "1", "0"):
            response = await ask(attempt, attempt.task, headers={"x-stainless-retry-count": count})
            bodies.append(response.content)
        streamed = await ask(attempt, attempt.task, stream=True)
        again = await ask(attempt, attempt.task, stream=True, headers={"x-stainless-retry-count": "2"})
        assert streamed.content == again.content
        return ""

    trajectory, engine = run(work)
    assert bodies[0] == bodies[1] != bodies[2]
    assert len(engine.record) == len(trajectory.turns) == 3


def test_an_answer_that_nobody_received_is_not_trained() -> None:
    class Held(RecordingEngine):
        """Its first call waits until the second is answered."""

        def __init__(self) -> None:
            super().__init__()
            self.asked, self.released = asyncio.Event(), asyncio.Event()

        async def generate(self, request: GenerationRequest) -> Generation:
            if not self.asked.is_set():
                self.asked.set()
                await self.released.wait()
            return await super().generate(request)

    engine = Held()

    async def work(attempt: Attempt) -> str:
        body = b'{"model": "m", "messages": [{"role": "user", "content": "lost"}], "max_tokens": 8}'
        host, port = attempt.base_url.removeprefix("http://").removesuffix("/v1").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-api-key: {attempt.api_key}\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await engine.asked.wait()
        writer.transport.abort()
        await ask(attempt, attempt.task)
        engine.released.set()
        while len(engine.record) < 2:
            await asyncio.sleep(0)
        return ""

    trajectory, _ = run(work, model=engine)
    assert len(trajectory.turns) == 2
    (row,) = trajectory.rows
    assert [span.turn for span in row.spans] == [0]
    assert row.logprobs == engine.record[0][1].logprobs


def test_parallel_calls_are_rows_of_their_own() -> None:
    async def work(attempt: Attempt) -> str:
        await asyncio.gather(*(ask(attempt, f"task {number}") for number in range(3)))
        return ""

    trajectory, engine = run(work)
    assert len(trajectory.rows) == len(trajectory.turns) == 3
    assert len({request.session for request, _ in engine.record}) == 3
    written = {row.token_ids[row.spans[0].start : row.spans[0].stop] for row in trajectory.rows}
    assert written == {generation.token_ids for _, generation in engine.record}
    texts = {row.spans[0].turn: RENDERER.read(row.token_ids[row.spans[0].start :]).text for row in trajectory.rows}
    assert [turn.text for turn in trajectory.turns] == [texts[index] for index in range(3)]


@pytest.mark.parametrize("fixes", [False, True])
def test_training_decides_how_its_policy_is_sampled_and_serving_does_not(*, fixes: bool) -> None:
    async def work(attempt: Attempt) -> str:
        await ask(attempt, attempt.task, temperature=0.5, top_p=0.9)
        return ""

    trajectory, engine = run(work, fixes_sampling=fixes)
    request, generation = engine.record[0]
    expected = (1.0, SamplingSettings()) if fixes else (0.5, SamplingSettings(top_p=0.9))
    assert (request.temperature, request.sampling) == expected
    assert (trajectory.temperature, trajectory.sampling) == (expected[0], expected[1].as_parameters())
    assert trajectory.rows[0].sampling_logprobs == generation.sampling_logprobs


def test_calls_at_several_temperatures_have_no_common_one() -> None:
    async def work(attempt: Attempt) -> str:
        first = message_of(await ask(attempt, attempt.task))
        await ask(attempt, attempt.task, first, "more", temperature=0.5)
        return ""

    trajectory, engine = run(work)
    assert trajectory.temperature is None
    (row,) = trajectory.rows
    first, second = (generation for _, generation in engine.record)
    assert row.sampling_logprobs == (*first.logprobs, *second.sampling_logprobs)


def test_a_call_without_room_is_refused_and_the_program_goes_on() -> None:
    statuses: list[tuple[int, str]] = []

    async def work(attempt: Attempt) -> Action:
        for text in ("long " * 400, "short"):
            response = await ask(attempt, text)
            statuses.append((response.status_code, response.text))
        return Action("user", "answer", {"text": "x"})

    trajectory, _ = run(work)
    assert [status for status, _ in statuses] == [400, 200]
    assert "environment.max_tokens" in statuses[0][1]
    assert (trajectory.outcome, len(trajectory.turns)) == ("finished", 1)


def test_a_model_that_fails_is_not_the_programs_failure() -> None:
    class Broken(RecordingEngine):
        async def generate(self, request: GenerationRequest) -> Generation:
            generation = await super().generate(request)
            return replace(generation, model_version="other" if self.asked() else generation.model_version)

        def asked(self) -> bool:
            return len(self.record) > 1

    async def work(attempt: Attempt) -> str:
        for _ in range(3):
            await ask(attempt, attempt.task)
        return ""

    trajectory, _ = run(work, model=Broken())
    assert trajectory.outcome == "model_error"
    assert "the model changed" in trajectory.error


def test_calls_of_another_model_render_as_the_model_would_have_read_and_written_them() -> None:
    trajectory, _ = run(converse)
    rows = program_rows(trajectory, script_for(RENDERER, ""))
    assert [[span.turn for span in row.spans] for row in rows] == [[0, 1, 2]]
    (row,), (sampled,) = rows, trajectory.rows
    assert row.spans[0].start == sampled.spans[0].start
    assert [RENDERER.read(row.token_ids[span.start : span.stop]).text for span in row.spans] == [
        turn.text.rstrip(f" {GLUE}") for turn in trajectory.turns
    ]
    assert all(row.token_ids[span.stop - 1] in RENDERER.stop_ids for span in row.spans)
    assert [call.is_own for calls in captured_calls(trajectory) for call in calls] == [True] * 3


def test_what_continues_is_counted_and_what_does_not_has_a_cause_and_a_cure() -> None:
    async def work(attempt: Attempt) -> str:
        answers = [await ask(attempt, {"role": "system", "content": "It is 9:00."}, attempt.task)]
        answers.append(
            await ask(
                attempt,
                {"role": "system", "content": "It is 9:01."},
                attempt.task,
                message_of(answers[0]),
                "Go on.",
            )
        )
        return ""

    clocks, _ = run(work)
    counted = continuity(
        [run(converse)[0], clocks, Trajectory("t", "k", "a@1", (), Observation(""), "finished", "sampled")]
    )
    assert (counted.attempts, counted.calls, counted.undelivered) == (2, 5, 0)
    assert counted.share == 4 / 5
    (cause,) = counted.causes.items()
    assert cause[0] == "system_prompt"
    assert cause[1].calls == 1
    assert "put what changes in it, such as the time" in cause[1].cure
    assert "'It is 9:00.' before, 'It is 9:01.' now" in cause[1].example
    assert continuity([]).share is None
