"""The entropy bonus: its part of the loss, its floor, and its effect on a policy that would collapse."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.records import Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory, policy_rows
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.policy_update import PolicyUpdate
from upturn.training.loss import TokenBatch
from upturn.training.losses import ClippedPolicy, WithEntropy
from upturn.training.optimisation import SampledCounts, Trainer
from upturn.training.policy_settings import EntropySettings, ObjectiveSettings
from upturn.training.runs import RunOptions

Make = Callable[..., Trajectory]
Model = Callable[..., PreTrainedModel]
PLAIN = GrpoSettings(minibatches=1, evaluate_every=None, keep="final")


def test_the_bonus_is_subtracted_and_reported() -> None:
    ones = torch.ones(3)
    batch = TokenBatch(
        -ones,
        -ones,
        torch.zeros(3),
        torch.tensor([True, True, False]),
        entropies=torch.tensor([0.5, 2.0, math.nan]),
    )
    objective = WithEntropy(ClippedPolicy(0.2, 0.28), 0.1)
    torch.testing.assert_close(objective.losses(batch), torch.tensor([-0.05, -0.2, 0.0]))
    assert objective.statistics(batch).sums["entropy_exact"] == 2.5


def test_a_step_follows_the_gradient_of_the_exact_entropy(tiny_model: Model, make_trajectory: Make) -> None:
    """Without advantages only the bonus acts; its gradient is compared with plain torch."""
    trajectories = [make_trajectory((1, 5, token, 7), ((0, 2, 4),), name=str(token)) for token in (3, 9)]
    rows = [row for trajectory in trajectories for row in policy_rows(trajectory, [0.0])]
    settings = replace(PLAIN, objective=ObjectiveSettings(entropy=EntropySettings(0.3)))
    unit = PolicyUpdate(settings, 0).unit(0, [rows], SampledCounts(2, 4))
    model, other = tiny_model(), tiny_model()
    metrics = Trainer(model, OptimiserSettings(max_grad_norm=1e9)).step(unit.minibatches[0])
    logits = torch.cat([other(torch.from_numpy(row.token_ids)[None]).logits[0, 1:3] for row in rows])
    entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)
    (-0.3 * entropy.mean()).backward()
    mean = float(entropy.detach().mean())
    assert metrics.loss == pytest.approx(-0.3 * mean, rel=1e-5)
    assert metrics.sums["entropy_exact"] / 4 == pytest.approx(mean, rel=1e-5)
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("floor", "acts"), [(None, True), (0.99, False), (1.01, True)])
def test_the_bonus_acts_only_below_its_floor(make_trajectory: Make, floor: float | None, acts: bool) -> None:
    """The recorded log-probs are −1, so the estimate of the entropy is 1."""
    (row,) = policy_rows(make_trajectory(), [1.0])
    settings = replace(PLAIN, objective=ObjectiveSettings(entropy=EntropySettings(0.5, floor)))
    unit = PolicyUpdate(settings, 0).unit(0, [[row]], SampledCounts(1, 1))
    assert unit.metrics["entropy_bonus"] == float(acts)
    (stream,) = unit.minibatches[0]
    assert isinstance(stream.objective, WithEntropy) and stream.has_entropies
    assert stream.objective.coefficient == (0.5 if acts else 0.0)


def test_no_entropy_is_computed_unless_asked_for(make_trajectory: Make) -> None:
    (row,) = policy_rows(make_trajectory(), [1.0])
    unit = PolicyUpdate(PLAIN, 0).unit(0, [[row]], SampledCounts(1, 1))
    assert not unit.minibatches[0][0].has_entropies and "entropy_bonus" not in unit.metrics


def test_a_floor_keeps_a_policy_from_collapsing(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    """One written token; five of twenty are rewarded equally, so that the best entropy is log 5 = 1.6."""

    def distribution(model: PreTrainedModel) -> torch.Tensor:
        with torch.no_grad():
            logprobs: torch.Tensor = model(torch.tensor([[1, 2]])).logits[0, -1].log_softmax(-1)
        return logprobs

    def entropy_after(objective: ObjectiveSettings) -> tuple[float, float]:
        model = tiny_model()

        def collect(iteration: int) -> Sequence[ScoredGroup]:
            generator = torch.Generator().manual_seed(iteration)
            logprobs = distribution(model)
            drawn = torch.multinomial(logprobs.exp(), 16, replacement=True, generator=generator).tolist()
            members = [
                ScoredTrajectory(
                    make_trajectory(
                        (1, 2, token), ((0, 2, 3),), name=str(index), logprobs=[float(logprobs[token])]
                    ),
                    (float(token < 5),),
                )
                for index, token in enumerate(drawn)
            ]
            return [ScoredGroup(Task("task", "", "", ""), tuple(members))]

        settings = replace(
            PLAIN, iterations=60, optimiser=OptimiserSettings(learning_rate=2e-2), objective=objective
        )
        run_grpo(model, collect, settings, RunOptions(0, tmp_path / str(objective.entropy is None)))
        logprobs = distribution(model)
        return float(-(logprobs.exp() * logprobs).sum()), float(logprobs.exp()[:5].sum())

    collapsed, reward = entropy_after(ObjectiveSettings())
    kept, reward_with_floor = entropy_after(ObjectiveSettings(entropy=EntropySettings(0.3, floor=1.2)))
    assert reward > 0.95 and collapsed < 1.0
    assert reward_with_floor > 0.8 and kept > 1.0
