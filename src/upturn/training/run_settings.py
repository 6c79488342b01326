"""The settings that all runs share: optimiser, evaluations, stopping, which weights to keep, checkpoints.

They count units: iterations, or optimiser steps in epochs. No torch here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Literal

from upturn.config import (
    Count,
    NotNegative,
    OptimiserSettings,
    Positive,
    Rate,
    SamplingSettings,
    Settings,
    report_unused,
    settings,
)

Decay = Literal["none", "linear", "cosine"]
Keep = Literal["best", "final"]
"""Which weights the model has at the end of a run: those of the best evaluation, or the last ones."""


CHECKPOINT_SECONDS = 300.0
"""What a killed run may lose; a checkpoint of a large model takes up to a minute."""
SAVING_SETTINGS = frozenset({"checkpoint_every", "checkpoint_seconds", "checkpoints_kept"})
"""When a run saves what; they do not affect its result, so it may be resumed with others."""


def reshaping_problem(sampling: SamplingSettings, mismatch: object) -> str | None:
    """Returns the problem of sampling options whose difference from the policy nothing corrects; None = there is
    none."""
    if mismatch is not None or not sampling.is_reshaped:
        return None
    return (
        f"sampling ({sampling.describe()}) draws from another distribution than the policy, which mismatch "
        "corrects for: set mismatch with weight = 'token' and weight_cap = 2.0, or leave these options out"
    )


def evaluation_problems(
    evaluate_every: int | None,
    *,
    keep: Keep,
    patience: int | None,
    target_score: float | None = None,
    cost_limits: Mapping[str, float] = MappingProxyType({}),
) -> Iterator[str | None]:
    """Yields the problem of each setting that has no effect without evaluations, or with ``keep``."""
    limits = f"cost_limits on {', '.join(map(repr, cost_limits))}"
    if evaluate_every is None:
        cure = "with evaluate_every=None; set evaluate_every or leave it out"
        yield report_unused(patience is not None, f"patience={patience!r}", cure)
        keep_cure = "with evaluate_every=None; set evaluate_every, or keep='final'"
        yield report_unused(keep == "best", "keep='best'", keep_cure)
        yield report_unused(target_score is not None, f"target_score={target_score!r}", cure)
        yield report_unused(bool(cost_limits), limits, cure)
    is_unbound = bool(cost_limits) and keep == "final"
    yield report_unused(
        is_unbound, limits, "with keep='final', which keeps weights that break them; set keep='best'"
    )


@settings
class EpochSettings(Settings):
    """Training in epochs on a fixed data set."""

    epochs: Count = 1
    """Passes over the data."""
    optimiser: OptimiserSettings = OptimiserSettings()
    """AdamW."""
    decay: Decay = "linear"
    """Decay of the learning rate to 0 between warm-up and the last step."""
    evaluate_every: Count | None = None
    """Epochs between two evaluations; omit for no evaluation."""
    patience: Count | None = None
    """Consecutive evaluations without a new best after which training stops; omit for no limit."""
    keep: Keep = "final"
    """Which weights are kept: those of the best evaluation, or the last ones."""
    checkpoint_every: Count | None = None
    """Optimiser steps between two checkpoints; omit for checkpoints by time only."""
    checkpoint_seconds: Positive | None = CHECKPOINT_SECONDS
    """Seconds after which a finished optimiser step is saved. ``false`` = no checkpoints by time."""
    checkpoints_kept: Count = 1
    """Checkpoints that stay on disk; earlier ones are deleted."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from evaluation_problems(self.evaluate_every, keep=self.keep, patience=self.patience)


@settings
class IterationSettings(Settings):
    """Training in iterations, each of which samples or selects the data that it trains on."""

    iterations: Count = 40
    """Iterations."""
    optimiser: OptimiserSettings = OptimiserSettings()
    """AdamW."""
    decay: Decay = "none"
    """Decay of the learning rate over the iterations: ``linear`` goes from the full rate in the first of n
    iterations to 1/n of it in the last. It counts iterations, not steps, since an iteration without a signal takes
    no step; warm-up comes on top."""
    evaluate_every: Count | None = 5
    """Iterations between two evaluations on tasks that are neither trained on nor held out; the first is before
    training. ``false`` = no evaluation, which needs ``keep = "final"``."""
    target_score: float | None = None
    """Evaluation score at which training stops; omit for no target."""
    patience: Count | None = None
    """Consecutive evaluations without a new best after which training stops; omit for no limit."""
    cost_limits: Mapping[str, NotNegative] = field(default_factory=dict)
    """Upper limits of costs, such as ``safety`` or ``error``, in an evaluation: weights that exceed one are never
    kept, and a run that exceeds one after an evaluation within all of them stops. The verifier must report these
    costs."""
    keep: Keep = "best"
    """Which weights are kept: those of the best evaluation, or the last ones."""
    checkpoint_every: Count | None = None
    """Iterations between two checkpoints; omit for checkpoints by time only."""
    checkpoint_seconds: Positive | None = CHECKPOINT_SECONDS
    """Seconds after which a finished iteration is saved. ``false`` = no checkpoints by time."""
    checkpoints_kept: Count = 1
    """Checkpoints that stay on disk; earlier ones are deleted."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from evaluation_problems(
            self.evaluate_every,
            keep=self.keep,
            patience=self.patience,
            target_score=self.target_score,
            cost_limits=self.cost_limits,
        )


@settings
class OnlineSettings(IterationSettings):
    """Training on fresh trajectories of the policy. The caller that collects them reads how to sample."""

    tasks_per_iteration: Count = 24
    """Tasks in one iteration."""
    group_size: Count = 8
    """Trajectories per task; at least two where they are compared with each other."""
    temperature: Positive = 1.0
    """Temperature at which they are sampled. It defines the policy that a policy gradient trains: the model's
    logits divided by it."""
    sampling: SamplingSettings = SamplingSettings()
    """Further options with which they are sampled. A policy gradient corrects for them by ``mismatch``."""
    incumbent_share: Rate = 0.0
    """Share of the serving version's weights in the candidate's; a larger share preserves more of what the serving
    version could do (WiSE-FT, arXiv 2109.01903)."""
