"""Whole attempts whose context has a budget: what the model reads, how many rows it costs, what is trained."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.errands import MODEL
from upturn.agents import (
    Attempt,
    Job,
    Setting,
    ToolAgent,
    branch_points,
    build,
    fork_counts,
    rendered_rows,
    run_rollouts,
)
from upturn.agents.context import COMPACTED, Budget, parameters_of, prompt_builder
from upturn.config import Limits, OptimiserSettings
from upturn.environments.environment import Info, Step
from upturn.errors import ConfigError
from upturn.models import Model, ParsedOutput, Renderer, ScriptedModel, read_call
from upturn.models.engine import LocalEngine
from upturn.models.local import LocalModel
from upturn.models.shipped import load_local
from upturn.records import Action, AgentVersion, JsonValue, Observation, Task, Trajectory, Turn
from upturn.training import policy_rows, supervised_rows
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation.trainer import Trainer
from upturn.training.stream import Stream

END = 0
TASK = Task("t", "go", "f", "e")


class GrowingRenderer:
    """One token a letter; 0 ends an action."""

    stop_ids = (END,)

    def open(self, observation: Observation, prompt: str) -> tuple[int, ...]:
        return letters(f"{prompt}[{observation.text}]")

    def extend(self, observation: Observation) -> tuple[int, ...]:
        return letters(f"[{observation.text}]")

    def write(self, action: Action) -> tuple[int, ...]:
        return (*letters(f"{action.target}.{action.operation}"), END)

    def read(self, token_ids: Sequence[int]) -> ParsedOutput:
        text = "".join(chr(token) for token in token_ids if token != END)
        return ParsedOutput(text, read_call(text) if token_ids[-1:] == (END,) else None)


class LetterRenderer(GrowingRenderer):
    """Can also tell a conversation anew."""

    def rerender(self, turns: Sequence[Turn], *, observation: Observation, prompt: str) -> tuple[int, ...]:
        ids = self.open(turns[0].observation, prompt)
        later = [*(turn.observation for turn in turns[1:]), observation]
        for turn, seen in zip(turns, later, strict=True):
            ids += (*letters(turn.text), END, *self.extend(seen))
        return ids

    def count(self, text: str) -> int:
        return len(text)


def letters(text: str) -> tuple[int, ...]:
    return tuple(ord(letter) for letter in text)


class Talkative:
    """Answers everything with the same long text, and never ends."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def reset(self, task: Task) -> tuple[Observation, Info]:
        return Observation(task.instruction), Info({}, {})

    def step(self, action: Action) -> Step:
        return Step(Observation(self.answer), 0.0, False, False, Info({}, {}))

    def state(self) -> Mapping[str, JsonValue]:
        return {}

    def snapshot(self) -> object:
        raise NotImplementedError

    def restore(self, snapshot: object) -> None:
        raise NotImplementedError


def attempted(agent: ToolAgent, model: Model, answer: str, limits: Limits, attempts: int = 1) -> list[Trajectory]:
    setting = Setting("run", agent, "a@1", model, limits, clock=lambda: 0.0)
    jobs = [Job(Attempt(TASK, number, 0), setting) for number in range(attempts)]
    return asyncio.run(run_rollouts(jobs, lambda _: Talkative(answer)))


BUDGET = Budget(tokens=199, window_turns=2, observation_tokens=100, summary_tokens=10, low_mark=0.6)
LIMITS = Limits(max_turns=30, max_tokens=200, max_action_tokens=4)
ANSWER = "x" * 33


def scripted(renderer: Renderer, budget: Budget | None, answer: str = ANSWER) -> tuple[Trajectory, list[int]]:
    """An attempt that writes ``a.b`` in each turn, and the length of each prompt."""
    model = ScriptedModel(["a.b"], letters)
    (found,) = attempted(ToolAgent(renderer, LIMITS, context=budget), model, answer, LIMITS)
    return found, [len(request.prompt_ids) for request in model.requests]


def test_a_rollout_continues_past_a_full_context() -> None:
    # [go] is 4 tokens, and each turn writes 4 and reads 35. At the sixth 4 + 5 × 39 leave one of 200 to be written.
    without, _ = scripted(LetterRenderer(), None)
    assert (without.outcome, len(without.turns), len(without.rows)) == ("token_limit", 6, 1)
    # With a budget of 199 history is rewritten then: 119 of the low mark less 4 to be written, 4 of the opening and
    # 31 of the note leave 80, which two turns fit into. That makes 4 + 31 + 2 × 39 = 113, so that two further turns
    # fit, and every third turn begins a row.
    found, lengths = scripted(LetterRenderer(), BUDGET)
    assert (found.outcome, len(found.turns)) == ("step_limit", 30)
    assert lengths[:11] == [4, 43, 82, 121, 160, 113, 152, 191, 113, 152, 191]
    assert max(lengths) + 4 <= 199
    assert fork_counts([found]) == Counter({COMPACTED: 9})
    assert [row.fork_cause for row in found.rows] == [None] + [COMPACTED] * 9
    text = "".join(chr(token) for token in found.rows[1].token_ids if token != END)
    assert text.startswith(f"[go\n[3 earlier turns are left out]]a.b[{ANSWER}]a.b[{ANSWER}]a.b[")
    # Every turn is written, and trained, once.
    assert [span.turn for row in found.rows for span in row.spans] == list(range(30))


def test_a_higher_low_mark_gives_more_rows() -> None:
    # At .99 nothing is dropped for long, but there is ever less space between the marks: history is rewritten at
    # turns 5, 8, 10, 12, 14, 16 and every one after.
    rows = {mark: len(scripted(LetterRenderer(), replace(BUDGET, low_mark=mark))[0].rows) for mark in (0.6, 0.99)}
    assert rows == {0.6: 10, 0.99: 20}


def test_rendered_rows_equal_the_rollouts_rows() -> None:
    renderer = LetterRenderer()
    found, _ = scripted(renderer, BUDGET)
    rendered = rendered_rows(found, renderer, prompt_builder(renderer, LIMITS, context=BUDGET))
    assert [(row.token_ids, row.spans, row.fork_cause) for row in rendered] == [
        (row.token_ids, row.spans, row.fork_cause) for row in found.rows
    ]


def test_a_continuation_reads_the_same_prompts() -> None:
    renderer = LetterRenderer()
    found, _ = scripted(renderer, BUDGET)
    state = branch_points(found, TASK, Talkative(ANSWER))[7]  # history was rewritten before it, and will be again
    setting = Setting(
        "again", ToolAgent(renderer, LIMITS, context=BUDGET), "a@1", ScriptedModel(["a.b"], letters), LIMITS
    )
    (again,) = asyncio.run(run_rollouts([Job(Attempt(TASK, 0, 0, state), setting)], lambda _: Talkative(ANSWER)))
    assert len(again.turns) == 30
    assert [row.token_ids for row in again.rows] == [row.token_ids for row in found.rows[1:]]


def test_a_long_observation_is_truncated() -> None:
    found, lengths = scripted(LetterRenderer(), BUDGET, "y" * 500)
    assert found.outcome == "step_limit" and max(lengths) + 4 <= 199
    assert found.turns[1].observation.text == "y" * 500  # recorded whole
    text = "".join(chr(token) for token in found.rows[0].token_ids if token != END)
    assert text.startswith("[go]a.b[" + "y" * 72 + "… [428 more characters]]")


def test_an_instruction_without_room_ends_the_rollout() -> None:
    model = ScriptedModel(["a.b"], letters)
    agent = ToolAgent(LetterRenderer(), LIMITS, context=BUDGET)
    setting = Setting("run", agent, "a@1", model, LIMITS)
    job = Job(Attempt(replace(TASK, instruction="go " * 65), 0, 0), setting)
    (found,) = asyncio.run(run_rollouts([job], lambda _: Talkative("")))
    assert (found.outcome, found.turns, model.requests) == ("token_limit", (), [])


def test_unusable_budgets_are_refused_when_building_the_agent() -> None:
    version = AgentVersion("a", "1", "local_model", model="m", parameters=parameters_of(BUDGET))
    with pytest.raises(ConfigError, match=r"agent 'a@1': .*has no effect with a GrowingRenderer, which cannot"):
        build(version, limits=LIMITS, renderer=GrowingRenderer())
    with pytest.raises(ConfigError, match="context_tokens = 199 must be less than max_tokens = 199, which ends"):
        build(version, limits=replace(LIMITS, max_tokens=199), renderer=LetterRenderer())
    with pytest.raises(ConfigError, match="prompt and tools take 98 tokens, an observation up to 100, an answer"):
        build(replace(version, prompt="p" * 96), limits=LIMITS, renderer=LetterRenderer())
    with pytest.raises(ConfigError, match=r"answer up to 99 \(max_tokens\)"):
        build(
            replace(version, parameters={**version.parameters, "max_tokens": 99.0}),
            limits=LIMITS,
            renderer=LetterRenderer(),
        )
    with pytest.raises(ConfigError, match="'context_tokens' has no effect on kind 'callable'"):
        build(replace(version, kind="callable", model="operator:setitem"), limits=LIMITS)
    with pytest.raises(ConfigError, match="agent 'a@1': context_tokens need context_window_turns"):
        build(replace(version, parameters={"context_tokens": 9.0}), limits=LIMITS, renderer=LetterRenderer())


@pytest.fixture(scope="module")
def nano() -> LocalModel:
    return load_local(MODEL)


def test_a_local_model_continues_and_its_rows_are_trained_as_sampled(nano: LocalModel) -> None:
    renderer, answer = nano.renderer(), "m12 budget from bob; m13 report from eve; m14 demo from cid; m15 survey"
    limits = Limits(max_turns=9, max_tokens=160, max_action_tokens=12)
    budget = Budget(tokens=159, window_turns=2, observation_tokens=60, summary_tokens=16, low_mark=0.6)
    engine = LocalEngine(nano.model, slots=4, max_length=160)
    (without,) = attempted(ToolAgent(renderer, limits), engine, answer, limits)
    assert without.outcome == "token_limit"
    found = attempted(ToolAgent(renderer, limits, context=budget), engine, answer, limits, attempts=2)
    assert [(each.outcome, len(each.turns)) for each in found] == [("step_limit", 9)] * 2
    forks = fork_counts(found)
    assert set(forks) == {COMPACTED}
    assert forks[COMPACTED] == sum(len(each.rows) for each in found) - 2 <= 2 * 4
    for each in found:
        assert max(len(row.token_ids) for row in each.rows) <= 159
        assert [span.turn for row in each.rows for span in row.spans] == list(range(9))
    # Each token is trained once, with the log-prob that it was sampled with, in the context that it was sampled in.
    rows = [row for each in found for row in policy_rows(each, [1.0] * 9)]
    assert sum(len(row.positions) for row in rows) == sum(each.usage.written_tokens for each in found)
    trainer = Trainer(nano.model, OptimiserSettings(learning_rate=1e-4))
    for row, scored in zip(rows, trainer.score(rows), strict=True):
        assert row.old_logprobs is not None
        np.testing.assert_allclose(scored, row.old_logprobs, atol=2e-4)
    learned = supervised_rows(found)
    metrics = trainer.step([Stream(learned, CrossEntropy(), float(sum(len(row.positions) for row in learned)))])
    assert metrics.loss == pytest.approx(-np.mean(np.concatenate([row.old_logprobs for row in rows])), abs=1e-3)
