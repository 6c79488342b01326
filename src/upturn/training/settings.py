"""What a training run can be told. No torch here: configuration is read before anything heavy is loaded.

Every class checks itself when it is made and raises ConfigError with all its problems at once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from upturn.errors import ConfigError
from upturn.training.advantages.settings import AdvantageSettings

Keep = Literal["best", "final"]
"""Which weights the model holds when the run returns: those of the best evaluation, or the last ones."""
Decay = Literal["none", "linear", "cosine"]
Packing = Literal["tree", "padded"]
"""``tree``: what rows begin with together is computed once. ``padded``: each row by itself. Same gradient."""
Precision = Literal["float32", "bfloat16"]
"""Of the forward and backward pass; ``bfloat16`` by autocast, weights and optimiser stay in float32."""


def _unless(value: float, name: str, allowed: str, is_allowed: Callable[[float], bool]) -> str | None:
    if math.isfinite(value) and is_allowed(value):
        return None
    return f"{name} must be {allowed}, got {value!r}"


def _is_positive(value: float) -> bool:
    return value > 0


def _is_not_negative(value: float) -> bool:
    return value >= 0


def _is_decay_rate(value: float) -> bool:
    return 0 <= value < 1


def _every(evaluate_every: int | None) -> str | None:
    if evaluate_every is None:
        return None
    return _unless(evaluate_every, "evaluate_every", "at least 1 or None (never)", _is_positive)


def _keep_needs_evaluation(keep: Keep, evaluate_every: int | None) -> str | None:
    if keep == "best" and evaluate_every is None:
        return "keep='best' would do nothing with evaluate_every=None; set evaluate_every or keep='final'"
    return None


def _refuse(*problems: str | None) -> None:
    found = [problem for problem in problems if problem is not None]
    if found:
        raise ConfigError(found)


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
    micro_batch_tokens: int = 8192
    """Positions that are computed at once. Bounds memory; never changes the gradient beyond rounding."""
    packing: Packing = "tree"
    precision: Precision = "float32"
    gradient_checkpointing: bool = False
    """Activations are computed a second time in the backward pass instead of kept: less memory, a third slower."""
    threads: int | None = None
    """Of torch, for the whole process while the run lasts; None = as they are set."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        _refuse(
            _unless(self.learning_rate, "learning_rate", "positive", _is_positive),
            _unless(self.warmup_steps, "warmup_steps", "0 or more", _is_not_negative),
            _unless(self.weight_decay, "weight_decay", "0 or more", _is_not_negative),
            _unless(self.beta1, "beta1", "in [0, 1)", _is_decay_rate),
            _unless(self.beta2, "beta2", "in [0, 1)", _is_decay_rate),
            _unless(self.max_grad_norm, "max_grad_norm", "positive", _is_positive),
            _unless(self.micro_batch_tokens, "micro_batch_tokens", "at least 1", _is_positive),
            None if self.threads is None else _unless(self.threads, "threads", "at least 1", _is_positive),
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
    keep: Keep = "final"
    checkpoint_every: int = 100
    """Optimiser steps between two checkpoints."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        _refuse(
            _unless(self.epochs, "epochs", "at least 1", _is_positive),
            _unless(self.batch_rows, "batch_rows", "at least 1", _is_positive),
            _unless(self.checkpoint_every, "checkpoint_every", "at least 1", _is_positive),
            _every(self.evaluate_every),
            _keep_needs_evaluation(self.keep, self.evaluate_every),
        )


@dataclass(frozen=True, slots=True)
class GrpoSettings:
    """Group-relative policy optimisation on rollouts of the current weights."""

    iterations: int = 40
    minibatches: int = 2
    """Optimiser steps that an iteration's groups are split over; every rollout is used once."""
    clip_low: float = 0.2
    clip_high: float = 0.28
    """The ratio is clipped to [1 − clip_low, 1 + clip_high] (DAPO, arXiv 2503.14476)."""
    advantage: AdvantageSettings = field(default_factory=AdvantageSettings)
    optimiser: OptimiserSettings = OptimiserSettings(learning_rate=1e-4)
    decay: Decay = "none"
    """How the learning rate falls to zero between warm-up and the last iteration's last step."""
    evaluate_every: int | None = 5
    """Iterations between two evaluations; None = never evaluated. The first comes before any training."""
    target_score: float | None = None
    """Training stops once an evaluation reaches it; None = no target."""
    patience: int | None = None
    """Training stops after this many evaluations in a row without a new best; None = never for this reason."""
    keep: Keep = "best"
    checkpoint_every: int = 1
    """Iterations between two checkpoints."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        needs_evaluation = [name for name in ("target_score", "patience") if getattr(self, name) is not None]
        _refuse(
            _unless(self.iterations, "iterations", "at least 1", _is_positive),
            _unless(self.minibatches, "minibatches", "at least 1", _is_positive),
            _unless(self.clip_low, "clip_low", "in (0, 1)", lambda value: 0 < value < 1),
            _unless(self.clip_high, "clip_high", "positive", _is_positive),
            _unless(self.checkpoint_every, "checkpoint_every", "at least 1", _is_positive),
            None if self.patience is None else _unless(self.patience, "patience", "at least 1", _is_positive),
            None
            if self.target_score is None
            else _unless(self.target_score, "target_score", "finite", math.isfinite),
            _every(self.evaluate_every),
            _keep_needs_evaluation(self.keep, self.evaluate_every),
            f"{' and '.join(needs_evaluation)} would do nothing with evaluate_every=None; "
            "set evaluate_every or leave them out"
            if needs_evaluation and self.evaluate_every is None
            else None,
        )
