"""Rollouts with a context budget: the prompts, the number of rows and the trained tokens."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.errands import MODEL
from upturn.agents import (
    Job,
    RolloutRequest,
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
    """A renderer that can also rerender a conversation."""

    def rerender(self, turns: Sequence[Turn], *, observation: Observation, prompt: str) -> tuple[int, ...]:
        ids = self.open(turns[0].observation, prompt)
        later = [*(turn.observation for turn in turns[1:]), observation]
        for turn, result in zip(turns, later, strict=True):
            ids += (*letters(turn.text), END, *self.extend(result))
        return ids

    def count(self, text: str) -> int:
        return len(text)


def letters(text: str) -> tuple[int, ...]:
    return tuple(ord(letter) for letter in text)


class ConstantEnvironment:
    """Every step gives the same long observation; it never ends."""

    def __init__(self, result: str) -> None:
        self.result = result

    def reset(self, task: Task) -> tuple[Observation, Info]:
        return Observation(task.instruction), Info({}, {})

    def step(self, action: Action) -> Step:
        return Step(Observation(self.result), 0.0, False, False, Info({}, {}))

    def state(self) -> Mapping[str, JsonValue]:
        return {}

    def snapshot(self) -> object:
        raise NotImplementedError

    def restore(self, snapshot: object) -> None:
        raise NotImplementedError


def run_agent(agent: ToolAgent, model: Model, result: str, limits: Limits, count: int = 1) -> list[Trajectory]:
    setting = Setting("run", agent, "a@1", model, limits, clock=lambda: 0.0)
    jobs = [Job(RolloutRequest(TASK, number, 0), setting) for number in range(count)]
    return asyncio.run(run_rollouts(jobs, lambda _: ConstantEnvironment(result)))


BUDGET = Budget(tokens=199, window_turns=2, observation_tokens=100, summary_tokens=10, low_mark=0.6)
LIMITS = Limits(max_turns=30, max_tokens=200, max_action_tokens=4)
RESULT = "x" * 33


def scripted(renderer: Renderer, budget: Budget | None, result: str = RESULT) -> tuple[Trajectory, list[int]]:
    """A rollout that writes ``a.b`` in each turn, and the length of each prompt."""
    model = ScriptedModel(["a.b"], letters)
    (trajectory,) = run_agent(ToolAgent(renderer, LIMITS, context=budget), model, result, LIMITS)
    return trajectory, [len(request.prompt_ids) for request in model.requests]


def test_a_rollout_continues_past_a_full_context() -> None:
    # [go] has 4 tokens, and each turn writes 4 and reads 35. At the sixth, 4 + 5 × 39 of 200 leave one to write.
    without, _ = scripted(LetterRenderer(), None)
    assert (without.outcome, len(without.turns), len(without.rows)) == ("token_limit", 6, 1)
    # With a budget of 199 the history is then rewritten: of the low mark's 119, less 4 to write, 4 for the opening
    # and 31 for the note, 80 are left, enough for two turns. The prompt has 4 + 31 + 2 × 39 = 113 tokens: two more
    # turns fit, and every third turn starts a row.
    trajectory, lengths = scripted(LetterRenderer(), BUDGET)
    assert (trajectory.outcome, len(trajectory.turns)) == ("step_limit", 30)
    assert lengths[:11] == [4, 43, 82, 121, 160, 113, 152, 191, 113, 152, 191]
    assert max(lengths) + 4 <= 199
    assert fork_counts([trajectory]) == Counter({COMPACTED: 9})
    assert [row.fork_cause for row in trajectory.rows] == [None] + [COMPACTED] * 9
    text = "".join(chr(token) for token in trajectory.rows[1].token_ids if token != END)
    assert text.startswith(f"[go\n[3 earlier turns are left out]]a.b[{RESULT}]a.b[{RESULT}]a.b[")
    # Every turn is written, and trained, once.
    assert [span.turn for row in trajectory.rows for span in row.spans] == list(range(30))


def test_a_higher_low_mark_gives_more_rows() -> None:
    # At .99 turns stay longer, but the space between the marks shrinks: the history is rewritten at turns 5, 8, 10,
    # 12, 14, 16 and at every later one.
    rows = {mark: len(scripted(LetterRenderer(), replace(BUDGET, low_mark=mark))[0].rows) for mark in (0.6, 0.99)}
    assert rows == {0.6: 10, 0.99: 20}


def test_rendered_rows_equal_the_rollouts_rows() -> None:
    renderer = LetterRenderer()
    trajectory, _ = scripted(renderer, BUDGET)
    rendered = rendered_rows(trajectory, renderer, prompt_builder(renderer, LIMITS, context=BUDGET))
    assert [(row.token_ids, row.spans, row.fork_cause) for row in rendered] == [
        (row.token_ids, row.spans, row.fork_cause) for row in trajectory.rows
    ]


def test_a_continuation_reads_the_same_prompts() -> None:
    renderer = LetterRenderer()
    trajectory, _ = scripted(renderer, BUDGET)
    state = branch_points(trajectory, TASK, ConstantEnvironment(RESULT))[7]  # between two rewritings
    setting = Setting(
        "again", ToolAgent(renderer, LIMITS, context=BUDGET), "a@1", ScriptedModel(["a.b"], letters), LIMITS
    )
    (continuation,) = asyncio.run(
        run_rollouts([Job(RolloutRequest(TASK, 0, 0, state), setting)], lambda _: ConstantEnvironment(RESULT))
    )
    assert len(continuation.turns) == 30
    assert [row.token_ids for row in continuation.rows] == [row.token_ids for row in trajectory.rows[1:]]


def test_a_long_observation_is_truncated() -> None:
    trajectory, lengths = scripted(LetterRenderer(), BUDGET, "y" * 500)
    assert trajectory.outcome == "step_limit" and max(lengths) + 4 <= 199
    assert trajectory.turns[1].observation.text == "y" * 500  # recorded whole
    text = "".join(chr(token) for token in trajectory.rows[0].token_ids if token != END)
    assert text.startswith("[go]a.b[" + "y" * 72 + "… [428 more characters]]")


def test_an_instruction_without_room_ends_the_rollout() -> None:
    model = ScriptedModel(["a.b"], letters)
    agent = ToolAgent(LetterRenderer(), LIMITS, context=BUDGET)
    setting = Setting("run", agent, "a@1", model, LIMITS)
    job = Job(RolloutRequest(replace(TASK, instruction="go " * 65), 0, 0), setting)
    (trajectory,) = asyncio.run(run_rollouts([job], lambda _: ConstantEnvironment("")))
    assert (trajectory.outcome, trajectory.turns, model.requests) == ("token_limit", (), [])


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
    renderer, result = nano.renderer(), "m12 budget from bob; m13 report from eve; m14 demo from cid; m15 survey"
    limits = Limits(max_turns=9, max_tokens=160, max_action_tokens=12)
    budget = Budget(tokens=159, window_turns=2, observation_tokens=60, summary_tokens=16, low_mark=0.6)
    engine = LocalEngine(nano.model, slots=4, max_length=160)
    (without,) = run_agent(ToolAgent(renderer, limits), engine, result, limits)
    assert without.outcome == "token_limit"
    trajectories = run_agent(ToolAgent(renderer, limits, context=budget), engine, result, limits, count=2)
    assert [(trajectory.outcome, len(trajectory.turns)) for trajectory in trajectories] == [("step_limit", 9)] * 2
    forks = fork_counts(trajectories)
    assert set(forks) == {COMPACTED}
    assert forks[COMPACTED] == sum(len(trajectory.rows) for trajectory in trajectories) - 2 <= 2 * 4
    for trajectory in trajectories:
        assert max(len(row.token_ids) for row in trajectory.rows) <= 159
        assert [span.turn for row in trajectory.rows for span in row.spans] == list(range(9))
    # Each token is trained once, in the context and with the log-prob with which it was sampled.
    rows = [row for trajectory in trajectories for row in policy_rows(trajectory, [1.0] * 9)]
    assert sum(len(row.positions) for row in rows) == sum(
        trajectory.usage.written_tokens for trajectory in trajectories
    )
    trainer = Trainer(nano.model, OptimiserSettings(learning_rate=1e-4))
    for row, scored in zip(rows, trainer.score(rows), strict=True):
        assert row.old_logprobs is not None
        np.testing.assert_allclose(scored, row.old_logprobs, atol=2e-4)
    training_rows = supervised_rows(trajectories)
    metrics = trainer.step(
        [Stream(training_rows, CrossEntropy(), float(sum(len(row.positions) for row in training_rows)))]
    )
    assert metrics.loss == pytest.approx(-np.mean(np.concatenate([row.old_logprobs for row in rows])), abs=1e-3)
