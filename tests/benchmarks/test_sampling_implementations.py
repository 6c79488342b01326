"""Implementations of sampling on tiny conversations: their tokens are drawn from the model, turn by turn."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.implementations.engine import EngineSampler
from benchmarks.implementations.engine import serve_sampling as serve_engine
from benchmarks.implementations.generate import Cache, GenerateSampler
from benchmarks.implementations.generate import serve_sampling as serve_generate
from benchmarks.implementations.sampling import SampledRollout, prepare, score, scored_indices
from benchmarks.worker_process import Implementation
from benchmarks.workloads.conversations import Conversations, parse_conversations
from benchmarks.workloads.model import ModelSpec
from upturn.errors import ConfigError
from upturn.models.engine import LocalEngine

Run = Callable[[Implementation, Mapping[str, Any], int], list[dict[str, Any]]]
TINY = Conversations(12, tasks=3, group_size=2, turns=3, action_tokens=(1, 5), observation_tokens=4, vocabulary=64)
SETTINGS: dict[str, Any] = {
    "model": asdict(ModelSpec(width=64, layers=2, vocabulary=64, positions=128)),
    "conversations": TINY.settings(),
    "threads": 1,
    "device": "cpu",
    "precision": "float32",
}
CACHES: list[Cache] = ["whole", "growing", "allocated", "shared"]


def check_rollouts(rollouts: list[SampledRollout]) -> None:
    """Prompt, actions of the drawn lengths, observations: in this order, and nothing else."""
    prompts, observations, lengths = TINY.prompts(), TINY.observations(), TINY.lengths()
    for row, rollout in enumerate(rollouts):
        expected = list(prompts[row])
        positions: list[int] = []
        for turn in range(TINY.turns):
            count = int(lengths[turn, row])
            positions += range(len(expected), len(expected) + count)
            expected += rollout.token_ids[len(expected) : len(expected) + count]
            expected += list(observations[turn, row])
        assert list(rollout.token_ids) == expected
        assert list(rollout.positions) == positions
        assert len(rollout.logprobs) == len(positions)


@pytest.mark.parametrize("cache", CACHES)
def test_generate_keeps_the_conversations_and_records_true_logprobs(cache: Cache) -> None:
    model, conversations = prepare(SETTINGS)
    rollouts = GenerateSampler(model, conversations, cache).sample()
    check_rollouts(rollouts)
    found = score(model, rollouts)
    assert found.max_logprob_gap < 1e-5
    assert abs(found.z_score) < 5, "exceeded with probability 6e-7"


def test_engine_keeps_the_conversations_and_draws_new_tokens_each_step() -> None:
    model, conversations = prepare(SETTINGS)
    sampler = EngineSampler(LocalEngine(model, slots=6, max_length=conversations.context), conversations)
    first, second = sampler.sample(), sampler.sample()
    for rollouts in (first, second):
        check_rollouts(rollouts)
        assert score(model, rollouts).max_logprob_gap < 1e-5
    assert [rollout.token_ids for rollout in first] != [rollout.token_ids for rollout in second]


def test_tokens_that_were_not_drawn_from_the_model_have_a_high_score() -> None:
    model, conversations = prepare(SETTINGS)
    rollouts = EngineSampler(LocalEngine(model, slots=6, max_length=conversations.context), conversations).sample()
    logits = model(input_ids=torch.tensor([list(rollouts[0].token_ids)])).logits[0]
    likely = [
        SampledRollout(
            (*TINY.prompts()[0].tolist(), int(logits[TINY.prompt_tokens - 1].argmax())), [TINY.prompt_tokens], [0.0]
        )
    ] * 40
    assert score(model, likely).z_score > 5
    shifted = [rollout._replace(logprobs=[value + 1e-3 for value in rollout.logprobs]) for rollout in rollouts]
    assert score(model, shifted).max_logprob_gap == pytest.approx(1e-3, rel=0.05)


@pytest.mark.parametrize(
    ("implementation", "options"), [(serve_engine, {}), (serve_generate, {"cache": "growing"})]
)
def test_implementations_send_scores_and_then_seconds(
    run_steps: Run, implementation: Implementation, options: dict[str, Any]
) -> None:
    prepared, *steps = run_steps(implementation, SETTINGS | options, 2)
    assert prepared["max_logprob_gap"] < 1e-5
    assert abs(prepared["z_score"]) < 5, "exceeded with probability 6e-7"
    assert len(steps) == 2
    assert all(step["seconds"] > 0 for step in steps)


def test_conversations_survive_json() -> None:
    parsed = parse_conversations(TINY.settings())
    assert parsed == TINY
    np.testing.assert_array_equal(parsed.prompts(), TINY.prompts())
    assert (TINY.prompts()[0] == TINY.prompts()[1]).all() and (TINY.prompts()[0] != TINY.prompts()[2]).any()
    assert TINY.observations().shape == (3, 6, 4)
    assert set(TINY.lengths().ravel().tolist()) <= {1, 2, 3, 4, 5}
    assert TINY.context == 12 + 3 * 9
    assert scored_indices(TINY) == [0, 1, 2, 3, 4, 5]
    assert scored_indices(Conversations(5, tasks=2, group_size=8)) == [0, 1, 8, 9]


def test_all_invalid_settings_are_reported_together() -> None:
    with pytest.raises(ConfigError) as error:
        Conversations(0, turns=0, action_tokens=(5, 4), vocabulary=1)
    for part in ("prompt_tokens must be", "turns must be", "action_tokens must be", "vocabulary must be"):
        assert part in str(error.value)
