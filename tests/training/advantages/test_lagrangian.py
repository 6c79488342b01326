"""Budgets of costs: multipliers by hand, at a known fixed point, and in a policy that finds the allowed optimum."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from upturn.errors import ConfigError
from upturn.records import Task, Trajectory
from upturn.training import ScoredGroup, ScoredTrajectory
from upturn.training.advantages import (
    AdvantageSettings,
    Constrained,
    GroupRelative,
    LagrangianSettings,
    Multipliers,
)
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.policy_gradient import PolicyGradient

Make = Callable[..., Trajectory]
SAFETY = LagrangianSettings({"safety": 0.25})


def costly(make: Make, name: str, *costs: float) -> Trajectory:
    """A trajectory with these ``safety`` costs by turn."""
    spans = [(turn, 2 * turn + 1, 2 * turn + 2) for turn in range(len(costs))]
    trajectory = make(list(range(2 * len(costs))), spans, name=name)
    turns = zip(trajectory.turns, costs, strict=True)
    return replace(
        trajectory, turns=tuple(replace(turn, costs={"safety": cost} if cost else {}) for turn, cost in turns)
    )


def group_of(*members: ScoredTrajectory) -> ScoredGroup:
    return ScoredGroup(Task("task", "", "", ""), members)


def test_a_cost_is_subtracted_from_its_turn(make_trajectory: Make) -> None:
    multipliers = Multipliers(SAFETY)
    multipliers.load_state({"multiplier_safety": 2.0})
    costing = ScoredTrajectory(costly(make_trajectory, "a", 0, 1, 0), (0.0, -1.0, 1.0))
    free = ScoredTrajectory(costly(make_trajectory, "b", 0, 0), (0.0, 0.5))
    assert multipliers.penalised(costing).turn_rewards == (0, -3, 1)
    assert multipliers.penalised(free) == free
    missing = ScoredTrajectory(costly(make_trajectory, "c", 1), None)
    assert multipliers.penalised(missing).turn_rewards is None
    advantages = Constrained(GroupRelative(), multipliers)(group_of(costing, free, missing))
    assert list(advantages.returns) == [-2, 0.5, None]
    assert advantages.turns[0] == pytest.approx((-1.25, -1.25, -1.25))


def test_multipliers_rise_above_budget_fall_below_it_and_stay_within_bounds(make_trajectory: Make) -> None:
    multipliers = Multipliers(LagrangianSettings({"safety": 0.25}, rate=0.4, most=0.5))
    bad = group_of(
        ScoredTrajectory(costly(make_trajectory, "a", 1, 1), (0.0, 0.0)),
        ScoredTrajectory(costly(make_trajectory, "b", 0), None),  # not scorable, but it cost nothing
    )
    good = group_of(ScoredTrajectory(costly(make_trajectory, "c", 0), (1.0,)))
    assert multipliers.update([bad]) == {"multiplier_safety": 0, "rollout_cost_safety": 1}
    assert multipliers.values["safety"] == pytest.approx(0.4 * 0.75)
    multipliers.update([bad])
    assert multipliers.values["safety"] == 0.5
    multipliers.update([good])
    assert multipliers.values["safety"] == pytest.approx(0.4)
    for _ in range(5):
        multipliers.update([good])
    assert multipliers.values["safety"] == 0


def test_dual_ascent_finds_the_hand_computed_multiplier(make_trajectory: Make) -> None:
    """An arm pays 1 and costs 1, another pays and costs nothing; a policy that answers λ with
    p = sigmoid((1 − λ)/τ) is within its budget d at λ = 1 − τ·log(d/(1 − d)), 1.549 for τ = ½ and d = ¼."""
    multipliers, count = Multipliers(replace(SAFETY, rate=0.5)), 400
    arms = [ScoredTrajectory(costly(make_trajectory, str(cost), cost), (cost,)) for cost in (0.0, 1.0)]
    for _ in range(60):
        share = 1 / (1 + math.exp(-(1 - multipliers.values["safety"]) / 0.5))
        count_with_cost = round(count * share)
        multipliers.update([group_of(*[arms[1]] * count_with_cost, *[arms[0]] * (count - count_with_cost))])
    assert multipliers.values["safety"] == pytest.approx(1 + 0.5 * math.log(3), abs=0.01)


class Bandit:
    """Two arms, the second of which pays 1 and costs 1: a softmax policy of one logit θ, which decays."""

    DECAY = 0.05

    def __init__(self, make: Make) -> None:
        self.make = make
        self.logit = torch.zeros((), requires_grad=True)
        self.optimiser = torch.optim.SGD([self.logit], lr=2.0, weight_decay=self.DECAY)
        self.rng = np.random.default_rng(0)

    @property
    def share(self) -> float:
        return float(self.logit.sigmoid().detach())

    def collect(self, iteration: int) -> Sequence[ScoredGroup]:
        members = []
        for index in range(24):
            arm = float(self.rng.random() < self.share)
            members.append(ScoredTrajectory(costly(self.make, f"{iteration}/{index}/{arm:g}", arm), (arm,)))
        return [group_of(*members)]

    def step(self, algorithm: PolicyGradient, iteration: int) -> dict[str, float]:
        unit = algorithm.unit(iteration)
        for (stream,) in unit.minibatches:
            arms = torch.tensor([float(row.trajectory_id.rsplit("/", 1)[1]) for row in stream.rows])
            weights = torch.tensor([float(row.weights[0]) for row in stream.rows])
            logprobs = -torch.nn.functional.softplus((1 - 2 * arms) * self.logit)
            self.optimiser.zero_grad()
            (-(weights * logprobs).sum() / stream.denominator).backward()
            self.optimiser.step()
        return dict(unit.metrics)


def settings_of(lagrangian: LagrangianSettings | None) -> GrpoSettings:
    return GrpoSettings(
        iterations=3,
        minibatches=1,
        evaluate_every=None,
        keep="final",
        advantage=AdvantageSettings(lagrangian=lagrangian),
    )


def test_a_policy_uses_the_costly_arm_as_often_as_its_budget_allows(make_trajectory: Make) -> None:
    """The arm is chosen with probability p = ¼ where the multiplier is at rest. There the policy is, too:
    p(1 − p)(1 − λ) = decay·θ with θ = −log 3, so λ = 1 + decay·log 3·16/3. Without decay the two circle around it.
    What is sampled is noisy, so means over the second half are compared."""
    bandit, free = Bandit(make_trajectory), Bandit(make_trajectory)
    algorithm = PolicyGradient(bandit.collect, settings_of(replace(SAFETY, rate=0.2)), 0)
    unbound = PolicyGradient(free.collect, settings_of(None), 0)
    metrics = [bandit.step(algorithm, index) for index in range(120)][60:]
    for index in range(15):
        assert "multiplier_safety" not in free.step(unbound, index)
    assert np.mean([metric["rollout_cost_safety"] for metric in metrics]) == pytest.approx(0.25, abs=0.04)
    allowed = 1 + bandit.DECAY * math.log(3) * 16 / 3
    assert np.mean([metric["multiplier_safety"] for metric in metrics]) == pytest.approx(allowed, abs=0.15)
    assert free.share > 0.8


def test_a_checkpoint_contains_the_multipliers(make_trajectory: Make) -> None:
    bandit = Bandit(make_trajectory)
    algorithm = PolicyGradient(bandit.collect, settings_of(SAFETY), 0)
    bandit.step(algorithm, 0)
    state = algorithm.state()
    again = PolicyGradient(bandit.collect, settings_of(SAFETY), 0)
    assert again.state() == {"multiplier_safety": 0}
    again.load_state(state)
    assert again.state() == state != {"multiplier_safety": 0}


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: LagrangianSettings({}), "budgets: dictionary should have at least 1 item"),
        (
            lambda: LagrangianSettings({"safety": -0.1}),
            r"budgets\.safety: input should be greater than or equal to 0",
        ),
        (lambda: replace(SAFETY, rate=0.0), "rate: input should be greater than 0"),
        (lambda: replace(SAFETY, most=-1.0), "most: input should be greater than 0"),
        (
            lambda: AdvantageSettings("monte_carlo", lagrangian=SAFETY),
            "no costs are subtracted from the returns of",
        ),
        (lambda: AdvantageSettings(scale="mean", lagrangian=SAFETY), "which divides by returns"),
    ],
)
def test_unusable_budgets_are_refused(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make()
