"""The settings of PPO. No torch here."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from upturn.config import Count, OptimiserSettings, Positive, Settings, Share, WholeNumber, report_unused, settings
from upturn.errors import ConfigError
from upturn.training.policy_settings import MismatchSettings, ObjectiveSettings, PolicyGradientSettings
from upturn.training.run_settings import OnlineSettings, reshaping_problem

StepKind = Literal["turn", "token"]
_USUAL_TRACES: Mapping[StepKind, float] = {
    "turn": 0.9,  # Turn-PPO, arXiv 2512.17008
    "token": 1.0,  # as verl: over hundreds of tokens any λ < 1 leaves early ones without the outcome
}


@settings
class CreditSettings(Settings):
    """Generalised advantage estimation (``algorithms.ppo.gae``)."""

    step: StepKind = "turn"
    """The unit of values and advantages. ``turn``: the whole action; its value is that of the state before it.
    ``token``: each written token."""
    gamma: Share = 1.0
    """Discount per step."""
    trace: Share | None = None
    """λ: 0 uses the next value alone, 1 the rewards alone; omit for 0.9 by turn, 1 by token."""
    value_trace: Share | None = None
    """λ of the returns that values are fitted to; omit for the same. 1 is independent of the critic's own values,
    which are wrong at first (VC-PPO, arXiv 2503.01491)."""
    is_whitened: bool = True
    """Whether the advantages of all written tokens of an iteration are scaled to mean 0 and standard deviation
    1."""

    @property
    def traces(self) -> tuple[float, float]:
        """λ of the advantages and λ of the returns that values are fitted to."""
        trace = _USUAL_TRACES[self.step] if self.trace is None else self.trace
        return trace, trace if self.value_trace is None else self.value_trace


@settings
class CriticSettings(Settings):
    """The value network: a copy of the policy with a scalar head, computed and optimised as the policy is, except
    for these settings."""

    learning_rate: Positive = 3e-4
    """AdamW learning rate; higher than the policy's, so that values keep up with it (Turn-PPO, arXiv
    2512.17008)."""
    warmup_steps: WholeNumber = 0
    """Steps over which the learning rate rises linearly to its full value; 0 = none."""
    minibatches: Count = 2
    """Optimiser steps that one pass over an iteration's steps is split into, at most one for each group."""
    passes: Count = 2
    """Passes over an iteration's steps."""
    alone_iterations: WholeNumber = 0
    """Number of first iterations that train the critic only, since advantages from untrained values are noise:
    ``ppo`` does not update the policy, ``online-dpo`` pairs by returns alone. 0 = none."""
    value_clip: Positive | None = None
    """Largest change of a value in an iteration beyond which its error has no gradient (PPO's value clip); omit for
    no clip."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield report_unused(
            self.value_clip is not None and self.minibatches == 1 and self.passes == 1,
            f"value_clip={self.value_clip!r}",
            "with minibatches=1 and passes=1: no value has moved before the only step. Set more of either, or "
            "leave it out",
        )

    def optimiser(self, policy: OptimiserSettings) -> OptimiserSettings:
        """Returns the critic's optimiser settings, based on those of the policy."""
        return replace(policy, learning_rate=self.learning_rate, warmup_steps=self.warmup_steps)


@settings
class PpoSettings(OnlineSettings):
    """``upturn train ppo``: policy optimisation with a critic, which values each turn."""

    minibatches: Count = 2
    """Optimiser steps that one pass over an iteration's trajectories is split into, at most one for each task with
    a signal."""
    passes: Count = 1
    """Passes over an iteration's trajectories."""
    objective: ObjectiveSettings = ObjectiveSettings()
    """The loss; ``kind = "turn"`` clips one ratio per turn."""
    credit: CreditSettings = CreditSettings()
    """The advantage estimation."""
    critic: CriticSettings = CriticSettings()
    """The value network."""
    mismatch: MismatchSettings | None = None
    """Correction for a sampler whose log-probs differ from the trainer's; omit to use the recorded log-probs as the
    trainer's, which saves a pass over the rows."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        try:
            _ = self.policy
        except ConfigError as exc:
            yield from exc.problems
        yield reshaping_problem(self.sampling, self.mismatch)
        alone = self.critic.alone_iterations
        if self.iterations <= alone:
            yield (
                f"critic.alone_iterations={alone!r} leaves no iteration of {self.iterations!r} that trains the "
                "policy; set fewer, or more iterations"
            )

    @property
    def policy(self) -> PolicyGradientSettings:
        """The settings other than the critic and its credit."""
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
            checkpoint_seconds=self.checkpoint_seconds,
            checkpoints_kept=self.checkpoints_kept,
        )
