"""Constrained training by Lagrange multipliers: a cost's multiplier rises while its mean exceeds its budget.

The constrained problem, maximum reward with mean cost C_k per trajectory at most d_k, as its Lagrangian
E[R] − Σ λ_k·(E[C_k] − d_k): the policy ascends its gradient, the multipliers are updated by dual ascent,
λ_k ← max(0, λ_k + η·(mean C_k − d_k)), once per iteration (Altman, "Constrained Markov Decision Processes", 1999;
Ray, Achiam and Amodei, "Benchmarking Safe Exploration", 2019). A fixed weight would be a price for violations; a
budget limits how often they happen.

Departure: λ is at most ``most``, so that a cost that cannot meet its budget does not dominate every reward.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from upturn.training.advantage import Advantage, GroupAdvantages, ScoredGroup, ScoredTrajectory
from upturn.training.advantages.returns import checked_rewards
from upturn.training.advantages.settings import LagrangianSettings


class Multipliers:
    """The multipliers of a run, all 0 at first."""

    def __init__(self, settings: LagrangianSettings) -> None:
        self.settings = settings
        self.values = dict.fromkeys(settings.budgets, 0.0)

    def penalised(self, member: ScoredTrajectory) -> ScoredTrajectory:
        """The member with turn rewards r_t − Σ λ_k·c_k,t; unscorable members are unchanged."""
        rewards = checked_rewards(member)
        if rewards is None:
            return member
        turns = member.trajectory.turns
        penalties = (
            math.fsum(value * turn.costs.get(name, 0.0) for name, value in self.values.items()) for turn in turns
        )
        return replace(
            member, turn_rewards=tuple(reward - penalty for reward, penalty in zip(rewards, penalties, strict=True))
        )

    def update(self, groups: Iterable[ScoredGroup]) -> dict[str, float]:
        """Updates the multipliers from an iteration's trajectories, also those without a usable reward.

        Returns the metrics: mean costs per trajectory, and the multipliers before the update.
        """
        trajectories = [member.trajectory for group in groups for member in group.members]
        metrics = {f"multiplier_{name}": value for name, value in self.values.items()}
        for name, budget in self.settings.budgets.items():
            mean = math.fsum(
                turn.costs.get(name, 0.0) for trajectory in trajectories for turn in trajectory.turns
            ) / len(trajectories)
            metrics[f"rollout_cost_{name}"] = mean
            updated = self.values[name] + self.settings.rate * (mean - budget)
            self.values[name] = min(max(updated, 0.0), self.settings.most)
        return metrics

    def state(self) -> dict[str, float]:
        """The whole state."""
        return {f"multiplier_{name}": value for name, value in self.values.items()}

    def load_state(self, numbers: Mapping[str, float]) -> None:
        """Restores a state from ``state``."""
        self.values = {name: float(numbers[f"multiplier_{name}"]) for name in self.values}


class Constrained:
    """Wraps an estimator: subtracts weighted costs from the rewards, also in the reported returns."""

    def __init__(self, inner: Advantage, multipliers: Multipliers) -> None:
        self.inner = inner
        self.multipliers = multipliers
        self.needs = inner.needs

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member."""
        members: Sequence[ScoredTrajectory] = [self.multipliers.penalised(member) for member in group.members]
        return self.inner(replace(group, members=tuple(members)))
