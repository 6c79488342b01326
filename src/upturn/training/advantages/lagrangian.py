"""Costs held to a budget: each has a multiplier, which rises while attempts cost more than they may.

The constrained problem, most reward with mean cost C_k of an attempt at most d_k, as its Lagrangian
E[R] − Σ λ_k·(E[C_k] − d_k): the policy gradient climbs it, the multipliers are updated by dual ascent,
λ_k ← max(0, λ_k + η·(mean C_k − d_k)), once an iteration (Altman, "Constrained Markov Decision Processes", 1999;
Ray, Achiam and Amodei, "Benchmarking Safe Exploration", 2019). A fixed weight would be another thing: it says what
a violation may be bought for, a budget says how often one may happen.

Departure: λ is at most ``most``, so that a cost that cannot fall below its budget does not drown every reward.
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
        """With r_t − Σ λ_k·c_k,t as its turns' rewards; what is unscorable stays it."""
        rewards = checked_rewards(member)
        if rewards is None:
            return member
        turns = member.trajectory.turns
        taken = (
            math.fsum(value * turn.costs.get(name, 0.0) for name, value in self.values.items()) for turn in turns
        )
        return replace(
            member, turn_rewards=tuple(reward - cost for reward, cost in zip(rewards, taken, strict=True))
        )

    def update(self, groups: Iterable[ScoredGroup]) -> dict[str, float]:
        """Takes in an iteration's attempts, those without a usable reward too: what they cost is known.

        Returns the metrics: what attempts cost on average, and the multipliers that they were compared with.
        """
        attempts = [member.trajectory for group in groups for member in group.members]
        metrics = {f"multiplier_{name}": value for name, value in self.values.items()}
        for name, budget in self.settings.budgets.items():
            mean = math.fsum(turn.costs.get(name, 0.0) for attempt in attempts for turn in attempt.turns) / len(
                attempts
            )
            metrics[f"practice_cost_{name}"] = mean
            moved = self.values[name] + self.settings.rate * (mean - budget)
            self.values[name] = min(max(moved, 0.0), self.settings.most)
        return metrics

    def state(self) -> dict[str, float]:
        """All of their state."""
        return {f"multiplier_{name}": value for name, value in self.values.items()}

    def load_state(self, numbers: Mapping[str, float]) -> None:
        """Goes back to a state that ``state`` gave."""
        self.values = {name: float(numbers[f"multiplier_{name}"]) for name in self.values}


class Constrained:
    """Another estimator, on rewards less what their turns' costs are worth; so are the returns that it reports."""

    def __init__(self, inner: Advantage, multipliers: Multipliers) -> None:
        self.inner = inner
        self.multipliers = multipliers
        self.needs = inner.needs

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member."""
        members: Sequence[ScoredTrajectory] = [self.multipliers.penalised(member) for member in group.members]
        return self.inner(replace(group, members=tuple(members)))
