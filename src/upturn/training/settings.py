"""What a training run can be told. No torch here: configuration is read before anything heavy is loaded.

Every class checks itself when it is made and raises ConfigError with all its problems at once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from upturn.training.advantages import AdvantageSettings
from upturn.training.policy_settings import DynamicSamplingSettings, MismatchSettings, ObjectiveSettings
from upturn.training.run_settings import Keep, plan_problems, watch_problems
from upturn.training.validators import (
    is_not_negative,
    is_positive,
    is_rate,
    refuse,
    unless,
    unless_missing,
    useless,
)

Decay = Literal["none", "linear", "cosine"]
Packing = Literal["tree", "padded"]
"""``tree``: what rows begin with together is computed once. ``padded``: each row by itself. Same gradient."""
Precision = Literal["float32", "bfloat16"]
"""Of the forward and backward pass; ``bfloat16`` by autocast, weights and optimiser stay in float32."""


def is_ratio_one(minibatches: int, passes: int, mismatch: MismatchSettings | None) -> bool:
    """True when an iteration's only step meets the very weights that its old log-probs are recomputed with.

    Recorded log-probs are the sampler's, which may differ: there a bound on the ratio can act.
    """
    return minibatches == 1 and passes == 1 and mismatch is not None


@dataclass(frozen=True, slots=True)
class OptimiserSettings:
    """AdamW and how far one step may go."""

    learning_rate: float = 1e-4
    warmup_steps: int = 0
    """Steps over which the learning rate rises linearly to its full value; 0 = none."""
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.95
    """.95, not .999: runs here last hundreds of steps, and the second moment has to follow them."""
    max_grad_norm: float = 1.0
    """The whole gradient is scaled down to this 2-norm when it is longer."""
    micro_batch_tokens: int = 16_384
    """Positions that are computed at once. Bounds memory; never changes the gradient beyond rounding."""
    packing: Packing = "tree"
    precision: Precision = "float32"
    gradient_checkpointing: bool = False
    """Activations are computed a second time in the backward pass instead of kept: less memory, a third slower."""
    threads: int | None = None
    """Of torch, for the whole process while the run lasts; None = as they are set."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless(self.learning_rate, "learning_rate", "positive", is_positive),
            unless(self.warmup_steps, "warmup_steps", "0 or more", is_not_negative),
            unless(self.weight_decay, "weight_decay", "0 or more", is_not_negative),
            unless(self.beta1, "beta1", "in [0, 1)", is_rate),
            unless(self.beta2, "beta2", "in [0, 1)", is_rate),
            unless(self.max_grad_norm, "max_grad_norm", "positive", is_positive),
            unless(self.micro_batch_tokens, "micro_batch_tokens", "at least 1", is_positive),
            unless_missing(self.threads, "threads", "at least 1", is_positive),
        )


@dataclass(frozen=True, slots=True)
class SftSettings:
    """Supervised training on written tokens."""

    epochs: int = 1
    batch_rows: int = 32
    """Rows of one optimiser step."""
    optimiser: OptimiserSettings = OptimiserSettings(learning_rate=1e-3)
    decay: Decay = "none"
    """How the learning rate falls to zero between warm-up and the last step."""
    evaluate_every: int | None = None
    """Epochs between two evaluations; None = never evaluated."""
    patience: int | None = None
    """Training stops after this many evaluations in a row without a new best; None = never for this reason."""
    keep: Keep = "final"
    checkpoint_every: int = 100
    """Optimiser steps between two checkpoints."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless(self.epochs, "epochs", "at least 1", is_positive),
            unless(self.batch_rows, "batch_rows", "at least 1", is_positive),
            *watch_problems(self),
        )


@dataclass(frozen=True, slots=True)
class GrpoSettings:
    """Policy optimisation on groups of rollouts of the current weights; the named algorithms are ``presets``."""

    iterations: int = 40
    minibatches: int = 2
    """Optimiser steps that one pass over an iteration's groups is split into. A group stays in one of them: where
    fewer have a gradient, there are fewer steps (``optimiser_steps`` on the curve)."""
    passes: int = 1
    """How often an iteration's rollouts are used."""
    objective: ObjectiveSettings = field(default_factory=ObjectiveSettings)
    advantage: AdvantageSettings = field(default_factory=AdvantageSettings)
    mismatch: MismatchSettings | None = None
    """None = the sampler's recorded log-probs are taken for the trainer's own, which saves a pass over the rows."""
    dynamic_sampling: DynamicSamplingSettings | None = None
    """None = an iteration collects once; groups without a signal stay in the denominator."""
    optimiser: OptimiserSettings = OptimiserSettings(learning_rate=1e-4)
    decay: Decay = "none"
    """How the learning rate falls over the iterations: with ``linear`` from all of it in the first to 1/n in the
    last of n, where a next one would have 0. By iterations done, since one without a signal takes no step; warm-up
    comes on top."""
    evaluate_every: int | None = 5
    """Iterations between two evaluations; None = never evaluated. The first comes before any training."""
    target_score: float | None = None
    """Training stops once an evaluation reaches it; None = no target."""
    patience: int | None = None
    """Training stops after this many evaluations in a row without a new best; None = never for this reason."""
    cost_limits: Mapping[str, float] = field(default_factory=dict)
    """The most that each of these costs may be in an evaluation: weights that cost more are never kept, and a run
    that leaves the limits, once within them, stops."""
    keep: Keep = "best"
    checkpoint_every: int = 1
    """Iterations between two checkpoints."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        limit = self.objective.stale_limit
        refuse(
            unless(self.iterations, "iterations", "at least 1", is_positive),
            unless(self.minibatches, "minibatches", "at least 1", is_positive),
            unless(self.passes, "passes", "at least 1", is_positive),
            *plan_problems(self),
            f"objective.stale_limit={limit!r} measures the gap to the sampler, which recomputed log-probs hide: "
            "leave mismatch out, or take a mismatch.mask by sequence instead"
            if limit is not None and self.mismatch is not None
            else None,
            *self._idle_bounds(),
            useless(
                self.dynamic_sampling is not None and self.advantage.baseline == "none",
                "dynamic_sampling",
                "with advantage.baseline='none', where every group has a signal; leave one out",
            ),
        )

    def _idle_bounds(self) -> Iterator[str | None]:
        if is_ratio_one(self.minibatches, self.passes, self.mismatch):
            for chosen in self.objective.chosen_bounds:
                yield useless(
                    True,
                    f"objective.{chosen}",
                    "with minibatches=1, passes=1 and mismatch: the only step of an iteration meets the weights "
                    "that its old log-probs are recomputed with, so every ratio is 1. Set more minibatches or "
                    "passes, or leave it out",
                )
