"""The settings of PPO. No torch here."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from upturn.config import Count, OptimiserSettings, Positive, Settings, Share, WholeNumber, settings, useless
from upturn.errors import ConfigError
from upturn.training.policy_settings import MismatchSettings, ObjectiveSettings, PolicyGradientSettings
from upturn.training.run_settings import OnlineSettings

StepKind = Literal["turn", "token"]
_USUAL_TRACES: Mapping[StepKind, float] = {
    "turn": 0.9,  # Turn-PPO, arXiv 2512.17008
    "token": 1.0,  # as verl: over hundreds of tokens any λ < 1 leaves early ones without the outcome
}


@settings
class CreditSettings(Settings):
    """Generalised advantage estimation: how rewards and values become advantages (``algorithms.ppo.gae``)."""

    step: StepKind = "turn"
    """What has a value and an advantage. ``turn``: the whole action; its value is that of the state it began in.
    ``token``: each written token."""
    gamma: Share = 1.0
    """Discount per step."""
    trace: Share | None = None
    """λ: 0 trusts the next value alone, 1 the rewards alone; left out = 0.9 by turn, 1 by token."""
    value_trace: Share | None = None
    """λ of the returns that values are fitted to; left out = the same. 1 learns without leaning on values of its
    own, which are wrong in the beginning (VC-PPO, arXiv 2503.01491)."""
    is_whitened: bool = True
    """Whether the advantages of all written tokens of an iteration are given mean 0 and standard deviation 1."""

    @property
    def traces(self) -> tuple[float, float]:
        """λ of the advantages and λ of the returns that values are fitted to."""
        own = _USUAL_TRACES[self.step] if self.trace is None else self.trace
        return own, own if self.value_trace is None else self.value_trace


@settings
class CriticSettings(Settings):
    """The network that learns what states are worth: a copy of the policy with a head of one number, computed and
    optimised as the policy is, but for these settings."""

    learning_rate: Positive = 3e-4
    """Of its AdamW; higher than the policy's, so that values follow it (Turn-PPO, arXiv 2512.17008)."""
    warmup_steps: WholeNumber = 0
    """Steps over which its learning rate rises linearly to its full value; 0 = none."""
    minibatches: Count = 2
    """Optimiser steps that one pass over an iteration's steps is split into, at most one for each group."""
    passes: Count = 2
    """How often an iteration's steps are used."""
    alone_iterations: WholeNumber = 0
    """So many iterations at the beginning train the critic only, since advantages from values that know nothing yet
    are noise: ``ppo`` leaves the policy as it is, ``online-dpo`` pairs by what was earned alone. 0 = none."""
    value_clip: Positive | None = None
    """How far a value may move in an iteration before its error has no gradient (PPO's value clip); left out =
    any."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield useless(
            self.value_clip is not None and self.minibatches == 1 and self.passes == 1,
            f"value_clip={self.value_clip!r}",
            "with minibatches=1 and passes=1: no value has moved before the only step. Set more of either, or "
            "leave "
            "it out",
        )

    def optimiser(self, policy: OptimiserSettings) -> OptimiserSettings:
        """The critic's, where that of the policy is given."""
        return replace(policy, learning_rate=self.learning_rate, warmup_steps=self.warmup_steps)


@settings
class PpoSettings(OnlineSettings):
    """``upturn train ppo``: policy optimisation with a critic, which says what each turn was worth."""

    minibatches: Count = 2
    """Optimiser steps that one pass over an iteration's trajectories is split into, at most one for each task that
    teaches something."""
    passes: Count = 1
    """How often an iteration's trajectories are used."""
    objective: ObjectiveSettings = ObjectiveSettings()
    """The loss; ``kind = "turn"`` clips one ratio for each turn."""
    credit: CreditSettings = CreditSettings()
    """How rewards and values become advantages."""
    critic: CriticSettings = CriticSettings()
    """The value network."""
    mismatch: MismatchSettings | None = None
    """What to do about a sampler whose log-probs are not the trainer's; left out = its recorded log-probs are taken
    for the trainer's own, which saves a pass over the rows."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        try:
            _ = self.policy
        except ConfigError as exc:
            yield from exc.problems
        alone = self.critic.alone_iterations
        if self.iterations <= alone:
            yield (
                f"critic.alone_iterations={alone!r} leaves no iteration of {self.iterations!r} that trains the "
                "policy; set fewer, or more iterations"
            )

    @property
    def policy(self) -> PolicyGradientSettings:
        """All but the critic and its credit: what any policy optimisation is told, and what holds for it."""
        return PolicyGradientSettings(
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
