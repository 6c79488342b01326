"""The settings of a policy gradient: objective, KL, sampler mismatch, dynamic sampling. No torch here."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from upturn.config import Count, Positive, Settings, report_unused, settings
from upturn.training.advantages import AdvantageSettings
from upturn.training.run_settings import IterationSettings

ObjectiveKind = Literal["clipped", "gspo", "turn", "cispo", "sapo", "vespo"]
Aggregation = Literal["token_mean", "sequence_mean", "constant"]
KlEstimator = Literal["k1", "k2", "k3", "abs"]
WeightLevel = Literal["none", "token", "sequence"]
MaskLevel = Literal["none", "token", "sequence", "geometric", "k3"]


class Clips(NamedTuple):
    """Largest distances of a ratio below and above 1."""

    low: float
    high: float


_USUAL_CLIPS = {
    "clipped": Clips(0.2, 0.28),  # DAPO, arXiv 2503.14476
    "gspo": Clips(3e-4, 4e-4),  # arXiv 2507.18071, section 5.1
    "turn": Clips(0.05, 0.07),  # the token clips over √16: a mean of 16 independent log-ratios
    "cispo": Clips(1.0, 4.0),  # no lower bound and a cap of 5: ScaleRL, arXiv 2510.13786
    "sapo": Clips(1.0, math.inf),  # no bounds
    "vespo": Clips(1.0, math.inf),
}
_UNCLIPPED = ("sapo", "vespo")
_GATES = (1.0, 1.05)
"""τ⁺ and τ⁻ of SAPO, arXiv 2511.20347."""


@settings
class KlSettings(Settings):
    """KL divergence to the weights before training, as a term of the loss; see ``losses.divergence``."""

    coefficient: Positive
    """β; its initial value where there is a target."""
    estimator: KlEstimator = "k3"
    """The per-token estimator."""
    unbiased: bool = False
    """Multiply the estimate by the probability ratio, with its gradient; for k1 and k3."""
    target: Positive | None = None
    """KL per token that the coefficient adapts to; None = a constant coefficient."""
    horizon: Count | None = None
    """Trajectories over which the coefficient adapts; needs a target."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield report_unused(
            self.estimator == "k1" and not self.unbiased,
            "estimator='k1'",
            "as a loss: the mean of its gradient is 0; set unbiased=True, or take 'k2' or 'k3'",
        )
        if self.unbiased and self.estimator not in {"k1", "k3"}:
            yield f"unbiased=True cannot make estimator={self.estimator!r} unbiased; take 'k1' or 'k3'"
        if self.target is not None and self.horizon is None:
            yield f"target={self.target!r} needs horizon; set over how many trajectories it adapts"
        yield report_unused(
            self.target is None and self.horizon is not None,
            f"horizon={self.horizon!r}",
            "without target; set both or neither",
        )


@settings
class EntropySettings(Settings):
    """A bonus on the entropy of the policy's distribution at each written token, against its collapse; see
    ``losses.entropy``."""

    coefficient: Positive
    """Factor of the entropy, in nats, that is subtracted from the loss of each token."""
    floor: Positive | None = None
    """Entropy in nats per token below which the bonus acts: an iteration has it only if the mean of −log π over its
    written tokens, an estimate from before its first step, is less (the gate of Skywork-OR1, arXiv 2505.22312,
    section 4). None = it always acts."""


@settings
class KernelSettings(Settings):
    """φ(W) = W^k·e^{λ(1 − W)}, the weight of a rollout whose ratio is W, for ``vespo``; largest at W = k/λ. The
    defaults are those of the authors' code."""

    shape_positive: Positive = 2.0
    """k where A ≥ 0: how fast the weight fades as W falls to 0."""
    rate_positive: Positive = 3.0
    """λ where A ≥ 0: how fast the weight fades as W grows."""
    shape_negative: Positive = 3.0
    """k where A < 0."""
    rate_negative: Positive = 2.0
    """λ where A < 0."""


@settings
class ObjectiveSettings(Settings):
    """The per-token policy loss and its aggregation."""

    kind: ObjectiveKind = "clipped"
    """``clipped``: PPO's surrogate per token. ``gspo``: the same with one ratio per rollout; it differs from
    ``clipped`` only once the model has left the sampler, so with several minibatches or passes. ``turn``: one ratio
    per turn. ``cispo``: a bounded ratio as constant weight of the log-prob. ``sapo``: a sigmoid of the ratio, which
    bounds it smoothly. ``vespo``: a kernel of the whole rollout's ratio as constant weight of the log-prob."""
    clip_low: Annotated[float, Field(gt=0, le=1)] | None = None
    """The ratio is bounded to [1 − clip_low, 1 + clip_high]; None = the usual value of the kind."""
    clip_high: Positive | None = None
    """See ``clip_low``."""
    dual_clip: Positive | None = None
    """Bound of losses with A < 0, as −dual_clip·A; more than 1 + clip_high; None = no bound. For ``clipped``
    only."""
    gate_positive: Positive | None = None
    """τ⁺, for ``sapo``: how fast the gradient of tokens with A ≥ 0 fades as the ratio leaves 1; None = 1."""
    gate_negative: Positive | None = None
    """τ⁻, for ``sapo``: the same for A < 0; None = 1.05."""
    kernel: KernelSettings | None = None
    """For ``vespo``: the kernel; None = its defaults."""
    stale_limit: Positive | None = None
    """Mean log-prob gap to the sampler above which a sequence's tokens with A < 0 are dropped; None = no limit."""
    aggregation: Aggregation = "token_mean"
    """``token_mean``: over all written tokens (DAPO). ``sequence_mean``: mean over rollouts of the mean over their
    tokens (GRPO, GSPO). ``constant``: the sum divided by rollouts · ``constant_tokens`` (Dr. GRPO)."""
    constant_tokens: Count | None = None
    """Largest number of written tokens of a rollout; for ``constant``."""
    kl: KlSettings | None = None
    """None = no KL term, and no copy of the reference weights."""
    entropy: EntropySettings | None = None
    """None = no entropy bonus, and no entropy is computed."""
    mask_truncated: bool = False
    """Whether a trajectory that a limit of turns, tokens or time ended has no loss (overlong filtering of DAPO,
    arXiv 2503.14476, section 3.4). Its reward stays in its group's baseline; its tokens count in no denominator."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        if self.clip_low == 1 and self.kind not in {"cispo", *_UNCLIPPED}:
            yield f"clip_low must be in (0, 1) with kind={self.kind!r}, got {self.clip_low!r}"
        if self.dual_clip is not None and self.dual_clip <= 1 + self.clips.high:
            yield f"dual_clip must be more than 1 + clip_high, got {self.dual_clip!r}"
        yield report_unused(
            self.dual_clip is not None and self.kind != "clipped",
            f"dual_clip={self.dual_clip!r}",
            f"with kind={self.kind!r}; take kind='clipped' or leave it out",
        )
        for name in ("clip_low", "clip_high"):
            value = getattr(self, name)
            is_unread = self.kind in _UNCLIPPED and value is not None
            because = f"with kind={self.kind!r}, which has no clip; leave it out"
            yield report_unused(is_unread, f"{name}={value!r}", because)
        for name in ("gate_positive", "gate_negative"):
            value = getattr(self, name)
            is_unread = self.kind != "sapo" and value is not None
            yield report_unused(is_unread, f"{name}={value!r}", f"with kind={self.kind!r}; it belongs to 'sapo'")
        because = f"with kind={self.kind!r}; it belongs to 'vespo'"
        yield report_unused(self.kernel is not None and self.kind != "vespo", "kernel", because)
        if self.kind == "gspo" and self.aggregation != "sequence_mean":
            yield (
                f"kind='gspo' is a mean over each sequence; aggregation={self.aggregation!r} would weigh its one "
                "ratio by length. Set aggregation='sequence_mean'"
            )
        if self.aggregation == "constant" and self.constant_tokens is None:
            yield "aggregation='constant' needs constant_tokens; set the longest a rollout may be"
        yield report_unused(
            self.aggregation != "constant" and self.constant_tokens is not None,
            f"constant_tokens={self.constant_tokens!r}",
            f"with aggregation={self.aggregation!r}; take aggregation='constant' or leave it out",
        )

    @property
    def changed_bounds(self) -> tuple[str, ...]:
        """The settings that bound the ratio differently from the default, as ``name=value``."""
        usual = _USUAL_CLIPS["clipped"]
        is_changed = {
            "kind": self.kind != "clipped",
            "clip_low": self.clip_low not in {None, usual.low},
            "clip_high": self.clip_high not in {None, usual.high},
            "dual_clip": self.dual_clip is not None,
            "gate_positive": self.gate_positive is not None,
            "gate_negative": self.gate_negative is not None,
            "kernel": self.kernel is not None,
        }
        return tuple(f"{name}={getattr(self, name)!r}" for name in is_changed if is_changed[name])

    @property
    def gates(self) -> tuple[float, float]:
        """τ⁺ and τ⁻ of ``sapo``."""
        return self.gate_positive or _GATES[0], self.gate_negative or _GATES[1]

    @property
    def clips(self) -> Clips:
        """The bounds in effect."""
        usual = _USUAL_CLIPS[self.kind]
        return Clips(
            usual.low if self.clip_low is None else self.clip_low,
            usual.high if self.clip_high is None else self.clip_high,
        )


@settings
class MismatchSettings(Settings):
    """Correction for a sampler whose log-probs differ from the trainer's.

    The trainer's log-probs before the first step are computed and used as the old ones. The defaults only measure
    the difference; ``weight`` and ``mask`` correct for it. See ``upturn.training.optimisation.mismatch``, with w =
    π_old / π_sampler.
    """

    weight: WeightLevel = "none"
    """Truncated importance sampling: ``token``: min(w, cap); ``sequence``: min(Πw, cap) at each of its tokens."""
    weight_cap: Positive | None = None
    """None = no cap, which needs a mask of the same level."""
    mask: MaskLevel = "none"
    """What is dropped: ``token`` and ``sequence``: w or Πw outside [mask_low, mask_high]; ``geometric``: sequences
    with (Πw)^(1/length) outside; ``k3``: sequences with mean(w − log w − 1) above mask_high."""
    mask_low: Positive | None = None
    """Smallest ratio that stays; not for ``k3``."""
    mask_high: Positive | None = None
    """Largest ratio (``k3``: divergence) that stays."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        high, cap = self.mask_high, self.weight_cap
        is_same_level = self.mask == self.weight and self.weight != "none"
        yield report_unused(
            self.weight == "none" and cap is not None,
            f"weight_cap={cap!r}",
            "with weight='none'; choose 'token' or 'sequence' or leave it out",
        )
        if self.weight != "none" and cap is None and not is_same_level:
            yield f"weight={self.weight!r} needs weight_cap: a ratio without bound has no bounded variance"
        yield report_unused(
            is_same_level and cap is not None and cap >= (high or math.inf),
            f"weight_cap={cap!r}",
            f"with mask_high={high!r} on the same level; leave it out or make it smaller",
        )
        yield from self._mask_problems()

    @property
    def corrects(self) -> bool:
        """False when the difference is only measured."""
        return self.weight != "none" or self.mask != "none"

    def _mask_problems(self) -> Iterator[str | None]:
        low, high = self.mask_low, self.mask_high
        if self.mask == "none":
            names = [name for name, value in (("mask_low", low), ("mask_high", high)) if value is not None]
            yield report_unused(bool(names), " and ".join(names), "with mask='none'; choose a mask or leave it out")
            return
        if high is None:
            yield f"mask={self.mask!r} needs mask_high; set it"
        if self.mask == "k3":
            cure = "with mask='k3', which only has an upper limit; leave it out"
            yield report_unused(low is not None, f"mask_low={low!r}", cure)
        elif low is None:
            yield f"mask={self.mask!r} needs mask_low; set it"
        elif high is not None and not low < 1 < high:
            yield f"mask_low={low!r} and mask_high={high!r} must enclose 1, where nothing differs"


@settings
class DynamicSamplingSettings(Settings):
    """Replacement of groups without a signal by further ones (DAPO, arXiv 2503.14476, section 3.2).

    They then count in no denominator; all that was sampled is counted in the metrics. Departure: a round's surplus
    is trained on, not thrown away.
    """

    groups: Count | None = None
    """Groups with a signal that an iteration needs; None = as many as its first round has groups."""
    max_rounds: Annotated[int, Field(ge=2, le=99)] = 3
    """Sampling rounds in one iteration, including the first; the groups collected by then are trained on."""


@settings
class PartialSettings(Settings):
    """Partial rollouts: an iteration ends when ``tasks_per_iteration`` tasks are finished. Trajectories of the
    other tasks in progress are paused between two tokens and go on in the next iteration, with newer weights."""

    extra_tasks: Count = 8
    """Tasks in progress in addition to ``tasks_per_iteration``."""
    max_age: Annotated[int, Field(ge=0, le=99)] = 4
    """Maximum age, in iterations, of the weights whose tokens are trained on. Older tokens are context without
    loss; younger ones are corrected by their recorded log-probs. 0 = only tokens of the present weights."""


def is_ratio_one(minibatches: int, passes: int, mismatch: object) -> bool:
    """True when an iteration's only step starts from the weights that its old log-probs are recomputed with.

    Recorded log-probs are the sampler's, which may differ, so a bound on the ratio can then have an effect.
    """
    return minibatches == 1 and passes == 1 and mismatch is not None


@settings
class PolicyGradientSettings(IterationSettings):
    """Policy optimisation on groups of trajectories, fresh or stored."""

    minibatches: Count = 2
    """Optimiser steps that one pass over an iteration's groups is split into. A group stays in one of them: where
    fewer groups have a gradient, there are fewer steps (``optimiser_steps`` on the curve)."""
    passes: Count = 1
    """Passes over an iteration's trajectories."""
    objective: ObjectiveSettings = ObjectiveSettings()
    """The loss and its aggregation."""
    advantage: AdvantageSettings = AdvantageSettings()
    """The advantage estimator (docs/training.md)."""
    mismatch: MismatchSettings | None = None
    """Correction for a sampler whose log-probs differ from the trainer's; omit to use the recorded log-probs as the
    trainer's, which saves a pass over the rows."""
    dynamic_sampling: DynamicSamplingSettings | None = None
    """Replacement of groups without a signal by further ones; omit to sample once per iteration, where groups
    without a signal stay in the denominator."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        limit = self.objective.stale_limit
        if limit is not None and self.mismatch is not None:
            yield (
                f"objective.stale_limit={limit!r} measures the gap to the sampler, which recomputed log-probs "
                "hide: leave mismatch out, or take a mismatch.mask by sequence instead"
            )
        mismatch = self.mismatch
        if self.objective.kind == "vespo" and mismatch is not None and mismatch.corrects:
            yield (
                "objective.kind='vespo' weighs a rollout by its whole ratio to the recorded log-probs, and "
                "mismatch.weight and mask would weigh it again: leave mismatch out, or take another objective"
            )
        yield report_unused(
            self.dynamic_sampling is not None and self.advantage.baseline == "none",
            "dynamic_sampling",
            "with advantage.baseline='none', where every group has a signal; leave one out",
        )
        for bound in self.objective.changed_bounds:
            yield report_unused(
                is_ratio_one(self.minibatches, self.passes, self.mismatch),
                f"objective.{bound}",
                "with minibatches=1, passes=1 and mismatch: the only step of an iteration starts from the weights "
                "that its old log-probs are recomputed with, so every ratio is 1. Set more minibatches or "
                "passes, or leave it out",
            )
