"""Potential-based reward shaping: the only bonus for sub-goals that preserves the optimal policy."""

import math
from dataclasses import replace

from upturn.errors import TrainingError
from upturn.training.advantage import Advantage, GroupAdvantages, Need, ScoredGroup, ScoredTrajectory
from upturn.training.advantages.returns import checked_rewards


def shaped_rewards(member: ScoredTrajectory, gamma: float) -> tuple[float, ...] | None:
    """r_t + γ·Φ(s_{t+1}) − Φ(s_t) for each turn, Φ after the last turn counted as 0 (Ng, Harada and Russell 1999).

    Their discounted sum is the return minus Φ(s_0), which is equal for all trajectories of a task, so the optimal
    policy does not change. None = unscorable. Raises TrainingError where potentials are missing, not one per state
    or not finite.
    """
    rewards = checked_rewards(member)
    if rewards is None:
        return None
    trajectory, potentials = member.trajectory, member.potentials
    if potentials is None:
        raise TrainingError(
            f"trajectory {trajectory.id!r} has no potentials to shape its rewards by; let the environment give "
            "Info.potential in each of its states, or set advantage.is_shaped to false"
        )
    if len(potentials) != len(rewards) + 1:
        raise TrainingError(
            f"trajectory {trajectory.id!r} has {len(rewards)} turns but {len(potentials)} potentials; give one "
            "before each turn and one after the last"
        )
    for turn, potential in enumerate(potentials[:-1]):
        if not math.isfinite(potential):
            raise TrainingError(
                f"trajectory {trajectory.id!r} has the potential {potential!r} before turn {turn}; potentials are "
                "finite: a missing one would make the trajectory's reward missing too"
            )
    after = (*potentials[1:-1], 0.0) if rewards else ()
    return tuple(
        reward + gamma * next_potential - potential
        for reward, next_potential, potential in zip(rewards, after, potentials[:-1], strict=True)
    )


class Shaped:
    """Wraps an estimator: shapes its rewards. Reported returns stay unshaped."""

    def __init__(self, inner: Advantage, *, gamma: float) -> None:
        """``gamma``: that of the inner estimator; a different one would change the optimal policy."""
        self.inner = inner
        self.gamma = gamma
        self.needs: frozenset[Need] = inner.needs | {"potentials"}

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member."""
        members = tuple(
            replace(member, turn_rewards=shaped_rewards(member, self.gamma)) for member in group.members
        )
        advantages = self.inner(replace(group, members=members))
        return advantages._replace(returns=self.inner(group).returns)
