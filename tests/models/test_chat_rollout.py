"""Rollouts in errands by models with chat templates: prompts, records and training."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from benchmarks.errands import compose
from benchmarks.errands.kit import ErrandsKit
from benchmarks.errands.tools import errands_tools
from upturn.agents import Job, RolloutRequest, Setting, ToolAgent, fork_counts, rendered_rows, run_rollouts
from upturn.agents.context import COMPACTED, Budget, GrowingPrompt, prompt_builder
from upturn.agents.rendering import matches_tokenizer, render_trajectory
from upturn.config import Limits, OptimiserSettings
from upturn.errors import TrainingError
from upturn.models import ChatRenderer, Generation, GenerationRequest, Model
from upturn.models.engine import LocalEngine
from upturn.records import Action, Observation, Task, Trajectory
from upturn.training import policy_rows, supervised_rows
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation.trainer import Trainer
from upturn.training.stream import Stream

Tokenizers = Callable[..., PreTrainedTokenizerFast]

FAMILIES = {
    "qwen2_5": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "llama3_1": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
}
KEEPING = [(family, True) for family in FAMILIES]
ALL = [*KEEPING, ("qwen3", False)]
"""Qwen3 without thinking renders earlier turns differently from their prompts."""
KIT = ErrandsKit()


def renderer_of(tokenizer: PreTrainedTokenizerFast, *, is_keeping: bool) -> ChatRenderer:
    options = None if is_keeping else {"enable_thinking": False}
    renderer = ChatRenderer(tokenizer, errands_tools()[:3], options=options)
    assert renderer.keeps_prefix("Be brief.") == is_keeping
    return renderer


def random_model(family: str, vocabulary: int) -> PreTrainedModel:
    torch.manual_seed(0)
    config, make = FAMILIES[family]
    shape = config(
        vocab_size=vocabulary,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=64,
        max_position_embeddings=4096,
        sliding_window=None,
    )
    model: PreTrainedModel = make(shape).eval()
    return model


def tasks(count: int) -> list[Task]:
    return list(islice(KIT.tasks(seed=1, split="train", families=list(KIT.families)), count))


def run_agent(model: Model, renderer: ChatRenderer, run_tasks: Sequence[Task], limits: Limits) -> list[Trajectory]:
    setting = Setting("run", ToolAgent(renderer, limits, "Be brief."), "a@1", model, limits, clock=lambda: 0.0)
    jobs = [Job(RolloutRequest(task, 0, index), setting) for index, task in enumerate(run_tasks)]
    return asyncio.run(run_rollouts(jobs, KIT.environment))


@pytest.mark.parametrize(("family", "is_keeping"), ALL)
def test_arbitrary_output_is_recorded_as_sampled(chat_tokenizer: Tokenizers, family: str, is_keeping: bool) -> None:
    tokenizer = chat_tokenizer(family)
    renderer = renderer_of(tokenizer, is_keeping=is_keeping)
    model = random_model(family, len(tokenizer))
    limits = Limits(max_turns=3, max_tokens=3000, max_action_tokens=12)
    trajectories = run_agent(LocalEngine(model, slots=4, max_length=3000), renderer, tasks(3), limits)
    assert [trajectory.outcome for trajectory in trajectories] == ["step_limit"] * 3
    forks = fork_counts(trajectories)
    assert forks == ({} if is_keeping else {"history_changed": 3 * 2})
    # The trainer's log-probs of the rows' tokens equal those of the sampler.
    rows = [row for trajectory in trajectories for row in policy_rows(trajectory, [1.0] * len(trajectory.turns))]
    assert len(rows) == 3 + forks["history_changed"]
    trainer = Trainer(model, OptimiserSettings(learning_rate=1e-3))
    for row, scored in zip(rows, trainer.score(rows), strict=True):
        assert row.old_logprobs is not None
        np.testing.assert_allclose(scored, row.old_logprobs, atol=2e-4)
    metrics = trainer.step([Stream(rows, CrossEntropy(), float(sum(len(row.positions) for row in rows)))])
    assert metrics.loss == pytest.approx(-np.mean(np.concatenate([row.old_logprobs for row in rows])), abs=1e-3)


@pytest.mark.parametrize(("family", "is_keeping"), ALL)
def test_a_context_stays_within_its_budget_and_rows_are_counted_by_cause(
    chat_tokenizer: Tokenizers, family: str, is_keeping: bool
) -> None:
    renderer = renderer_of(chat_tokenizer(family), is_keeping=is_keeping)
    task = next(candidate for candidate in tasks(40) if len(compose(candidate).draft.oracle) == 3)
    listing = Action("mail", "list", {"folder": "inbox"}, "Let me see once more.")
    opening = len(renderer.open(Observation(task.instruction), "Be brief."))
    limits = Limits(max_turns=16, max_tokens=opening + 600, max_action_tokens=99)
    budget = Budget(opening + 599, window_turns=2, observation_tokens=99, summary_tokens=32, low_mark=0.6)
    agent = ToolAgent(renderer, limits, "Be brief.", context=budget)
    setting = Setting("run", agent, "a@1", ScriptedActions(renderer, [listing] * 16), limits, clock=lambda: 0.0)
    (trajectory,) = asyncio.run(run_rollouts([Job(RolloutRequest(task, 0, 0), setting)], KIT.environment))
    assert (trajectory.outcome, len(trajectory.turns)) == ("step_limit", 16)
    assert max(len(row.token_ids) for row in trajectory.rows) <= budget.tokens
    assert [span.turn for row in trajectory.rows for span in row.spans] == list(range(16))
    forks = fork_counts([trajectory])
    assert 1 <= forks[COMPACTED] <= 6
    assert forks["history_changed"] == (0 if is_keeping else 15 - forks[COMPACTED])
    rendered = rendered_rows(trajectory, renderer, prompt_builder(renderer, limits, "Be brief.", context=budget))
    assert [(row.token_ids, row.spans, row.fork_cause) for row in rendered] == [
        (row.token_ids, row.spans, row.fork_cause) for row in trajectory.rows
    ]


class ScriptedActions:
    """A model that writes these actions, one in each call, in the renderer's tokens."""

    def __init__(self, renderer: ChatRenderer, actions: Sequence[Action]) -> None:
        self._written = iter([renderer.write(action) for action in actions])

    async def generate(self, request: GenerationRequest) -> Generation:
        written = next(self._written)
        return Generation(written, (-0.5,) * len(written), "stop", "dictated")

    def release(self, session: str) -> None:
        """Nothing is cached."""


@pytest.mark.parametrize(("family", "is_keeping"), ALL)
def test_oracle_calls_solve_tasks_with_every_template_family(
    chat_tokenizer: Tokenizers, family: str, is_keeping: bool
) -> None:
    renderer = renderer_of(chat_tokenizer(family), is_keeping=is_keeping)
    task = next(candidate for candidate in tasks(40) if len(compose(candidate).draft.oracle) == 3)
    oracle = compose(task).draft.oracle
    (trajectory,) = run_agent(ScriptedActions(renderer, oracle), renderer, [task], Limits(max_action_tokens=999))
    assert KIT.verifier.verify(task, trajectory).is_success
    assert [turn.action for turn in trajectory.turns] == list(oracle)
    assert fork_counts([trajectory]) == ({} if is_keeping else {"history_changed": 2})
    # Rendered from the records, for supervised training, the tokens are the same.
    rendered = rendered_rows(trajectory, renderer, GrowingPrompt(renderer, "Be brief."))
    assert [(row.token_ids, row.spans, row.fork_cause) for row in rendered] == [
        (row.token_ids, row.spans, row.fork_cause) for row in trajectory.rows
    ]
    assert [len(row.positions) for row in supervised_rows([trajectory])] == [
        sum(span.stop - span.start for span in row.spans) for row in trajectory.rows
    ]


def test_demonstrations_are_rerendered_for_another_tokenizer(
    chat_tokenizer: Tokenizers,
) -> None:
    target, source = (renderer_of(chat_tokenizer(family), is_keeping=True) for family in ("qwen2_5", "mistral"))
    task = next(candidate for candidate in tasks(40) if len(compose(candidate).draft.oracle) == 3)
    oracle = compose(task).draft.oracle
    (trajectory,) = run_agent(ScriptedActions(source, oracle), source, [task], Limits(max_action_tokens=999))
    assert matches_tokenizer(trajectory, source) and not matches_tokenizer(trajectory, target)
    assert render_trajectory(trajectory, source, GrowingPrompt(source, "Be brief.")) is trajectory
    foreign = render_trajectory(trajectory, target, GrowingPrompt(target, "Be brief."))
    assert foreign.origin == "rendered" and foreign.turns == trajectory.turns
    (direct,) = run_agent(ScriptedActions(target, oracle), target, [task], Limits(max_action_tokens=999))
    assert [(row.token_ids, row.spans) for row in foreign.rows] == [
        (row.token_ids, row.spans) for row in direct.rows
    ]
    with pytest.raises(TrainingError, match="is 'rendered'"):
        policy_rows(foreign, [1.0, 1.0, 1.0])
