"""What PPO can be told. No torch here.

Every class checks itself when it is made and raises ConfigError with all its problems at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from upturn.errors import ConfigError
from upturn.training.policy_settings import MismatchSettings, ObjectiveSettings
from upturn.training.run_settings import Keep
from upturn.training.settings import Decay, GrpoSettings, OptimiserSettings
from upturn.training.validators import (
    is_not_negative,
    is_positive,
    refuse,
    unless,
    unless_missing,
    useless,
)

StepKind = Literal["turn", "token"]
_USUAL_TRACES: Mapping[StepKind, float] = {
    "turn": 0.9,  # Turn-PPO, arXiv 2512.17008
    "token": 1.0,  # as verl: over hundreds of tokens any λ < 1 leaves early ones without the outcome
}


@dataclass(frozen=True, slots=True)
class CreditSettings:
    """How rewards and values become advantages: generalised advantage estimation (``algorithms.ppo.gae``)."""

    step: StepKind = "turn"
    """What has a value and an advantage. ``turn``: the whole action; its value is that of the state it began in.
    ``token``: each written token."""
    gamma: float = 1.0
    """Discount per step, in [0, 1]."""
    trace: float | None = None
    """λ, in [0, 1]: 0 trusts the next value alone, 1 the rewards alone. None = .9 by turn, 1 by token."""
    value_trace: float | None = None
    """λ of the returns that values are fitted to; None = the same. 1 learns without leaning on values of its own,
    which are wrong in the beginning (VC-PPO, arXiv 2503.01491)."""
    is_whitened: bool = True
    """Whether the advantages of all written tokens of an iteration are given mean 0 and standard deviation 1."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless(self.gamma, "credit.gamma", "in [0, 1]", _is_share),
            unless_missing(self.trace, "credit.trace", "in [0, 1]", _is_share),
            unless_missing(self.value_trace, "credit.value_trace", "in [0, 1]", _is_share),
        )

    @property
    def traces(self) -> tuple[float, float]:
        """λ of the advantages and λ of the returns that values are fitted to."""
        own = _USUAL_TRACES[self.step] if self.trace is None else self.trace
        return own, own if self.value_trace is None else self.value_trace


@dataclass(frozen=True, slots=True)
class CriticSettings:
    """How values are learned, by a copy of the policy with a head of one number.

    It is computed and optimised as the policy is, but for what stands here.
    """

    learning_rate: float = 3e-4
    """Higher than the policy's, so that values follow it (Turn-PPO, arXiv 2512.17008)."""
    warmup_steps: int = 0
    """Steps over which the critic's learning rate rises linearly to its full value; 0 = none."""
    minibatches: int = 2
    """Optimiser steps that one pass over an iteration's steps is split into, at most one for each group."""
    passes: int = 2
    """How often an iteration's steps are used."""
    alone_iterations: int = 0
    """So many iterations at the beginning train the critic only, since advantages from values that know nothing yet
    are noise; 0 = none."""
    value_clip: float | None = None
    """How far a value may move in an iteration before its error has no gradient (PPO's value clip); None = any."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless(self.learning_rate, "critic.learning_rate", "positive", is_positive),
            unless(self.warmup_steps, "critic.warmup_steps", "0 or more", is_not_negative),
            unless(self.minibatches, "critic.minibatches", "at least 1", is_positive),
            unless(self.passes, "critic.passes", "at least 1", is_positive),
            unless(self.alone_iterations, "critic.alone_iterations", "0 or more", is_not_negative),
            unless_missing(self.value_clip, "critic.value_clip", "positive or None (no clip)", is_positive),
            useless(
                self.value_clip is not None and self.minibatches == 1 and self.passes == 1,
                f"critic.value_clip={self.value_clip!r}",
                "with critic.minibatches=1 and critic.passes=1: no value has moved before the only step. Set more "
                "of either, or leave it out",
            ),
        )

    def optimiser(self, policy: OptimiserSettings) -> OptimiserSettings:
        """The critic's, where that of the policy is given."""
        return replace(policy, learning_rate=self.learning_rate, warmup_steps=self.warmup_steps)


@dataclass(frozen=True, slots=True)
class PpoSettings:
    """Policy optimisation with a critic, on rollouts of the current weights."""

    iterations: int = 40
    minibatches: int = 2
    """Optimiser steps that one pass over an iteration's rollouts is split into; see ``GrpoSettings``."""
    passes: int = 1
    """How often an iteration's rollouts are used."""
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    """``objective.kind="turn"`` clips one ratio for each turn."""
    credit: CreditSettings = field(default_factory=CreditSettings)
    critic: CriticSettings = field(default_factory=CriticSettings)
    mismatch: MismatchSettings | None = None
    """None = the sampler's recorded log-probs are taken for the trainer's own, which saves a pass over the rows."""
    optimiser: OptimiserSettings = field(default_factory=lambda: OptimiserSettings(learning_rate=1e-4))
    """The policy's; the critic's follows it (``critic``)."""
    decay: Decay = "none"
    """How both learning rates fall over the iterations; see ``GrpoSettings``."""
    evaluate_every: int | None = 5
    """Iterations between two evaluations; None = never evaluated. The first comes before any training."""
    target_score: float | None = None
    """Training stops once an evaluation reaches it; None = no target."""
    patience: int | None = None
    """Training stops after this many evaluations in a row without a new best; None = never for this reason."""
    cost_limits: Mapping[str, float] = field(default_factory=dict)
    """The most that each of these costs may be in an evaluation; see ``GrpoSettings``."""
    keep: Keep = "best"
    checkpoint_every: int = 1
    """Iterations between two checkpoints."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        problems: list[str] = []
        try:
            _ = self.policy
        except ConfigError as exc:
            problems += exc.problems
        alone = self.critic.alone_iterations
        refuse(
            *problems,
            f"critic.alone_iterations={alone!r} leaves no iteration of {self.iterations!r} that trains the policy; "
            "set fewer, or more iterations"
            if 0 < self.iterations <= alone
            else None,
        )

    @property
    def policy(self) -> GrpoSettings:
        """All but the critic and its credit: what any policy optimisation is told, and what holds for it."""
        return GrpoSettings(
            iterations=self.iterations,
            minibatches=self.minibatches,
            passes=self.passes,
            objective=self.objective,
            mismatch=self.mismatch,
            optimiser=self.optimiser,
            decay=self.decay,
            evaluate_every=self.evaluate_every,
            target_score=self.target_score,
            patience=self.patience,
            cost_limits=self.cost_limits,
            keep=self.keep,
            checkpoint_every=self.checkpoint_every,
        )


def _is_share(value: float) -> bool:
    return 0 <= value <= 1
