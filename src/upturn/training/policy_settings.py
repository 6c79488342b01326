"""The settings of a policy gradient: objective, KL, sampler mismatch, dynamic sampling. No torch here."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from upturn.config import Count, Positive, Settings, settings, useless
from upturn.training.advantages import AdvantageSettings
from upturn.training.run_settings import IterationSettings

ObjectiveKind = Literal["clipped", "gspo", "turn", "cispo"]
Aggregation = Literal["token_mean", "sequence_mean", "constant"]
KlEstimator = Literal["k1", "k2", "k3", "abs"]
WeightLevel = Literal["none", "token", "sequence"]
MaskLevel = Literal["none", "token", "sequence", "geometric", "k3"]


class Clips(NamedTuple):
    """How far a ratio may lie below and above 1."""

    low: float
    high: float


_USUAL_CLIPS = {
    "clipped": Clips(0.2, 0.28),  # DAPO, arXiv 2503.14476
    "gspo": Clips(3e-4, 4e-4),  # arXiv 2507.18071, section 5.1
    "turn": Clips(0.05, 0.07),  # those by token over √16: a mean of log-ratios over 16 tokens that move apart
    "cispo": Clips(1.0, 4.0),  # no lower bound and a cap of 5: ScaleRL, arXiv 2510.13786
}


@settings
class KlSettings(Settings):
    """KL divergence to the weights before training, as a term of the loss; see ``losses.divergence``."""

    coefficient: Positive
    """β. Where there is a target: what it starts from."""
    estimator: KlEstimator = "k3"
    """How it is estimated from single tokens."""
    unbiased: bool = False
    """Whether the estimate is multiplied by the probability ratio, with its gradient; for k1 and k3."""
    target: Positive | None = None
    """KL per token that the coefficient is adapted to; None = it stays."""
    horizon: Count | None = None
    """Trajectories over which the coefficient adapts; needs a target."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield useless(
            self.estimator == "k1" and not self.unbiased,
            "estimator='k1'",
            "as a loss: the mean of its gradient is 0; set unbiased=True, or take 'k2' or 'k3'",
        )
        if self.unbiased and self.estimator not in {"k1", "k3"}:
            yield f"unbiased=True cannot make estimator={self.estimator!r} unbiased; take 'k1' or 'k3'"
        if self.target is not None and self.horizon is None:
            yield f"target={self.target!r} needs horizon; set over how many trajectories it adapts"
        yield useless(
            self.target is None and self.horizon is not None,
            f"horizon={self.horizon!r}",
            "without target; set both or neither",
        )


@settings
class ObjectiveSettings(Settings):
    """The per-token policy loss and how it is averaged."""

    kind: ObjectiveKind = "clipped"
    """``clipped``: PPO's surrogate by token. ``gspo``: the same with one ratio for a whole rollout; it differs from
    ``clipped`` only once the model has left the sampler, so with several minibatches or passes. ``turn``: one ratio
    for each turn of a rollout. ``cispo``: a bounded ratio as constant weight of the log-prob."""
    clip_low: Annotated[float, Field(gt=0, le=1)] | None = None
    """The ratio is bounded to [1 − clip_low, 1 + clip_high]; None = what is usual for the kind."""
    clip_high: Positive | None = None
    """See ``clip_low``."""
    dual_clip: Positive | None = None
    """Losses of A < 0 are bounded by −dual_clip·A; more than 1 + clip_high; None = not. For ``clipped`` only."""
    stale_limit: Positive | None = None
    """Mean log-prob gap to the sampler above which a sequence's tokens with A < 0 are dropped; None = never."""
    aggregation: Aggregation = "token_mean"
    """``token_mean``: over all written tokens (DAPO). ``sequence_mean``: mean over rollouts of the mean over their
    tokens (GRPO, GSPO). ``constant``: the sum over rollouts · ``constant_tokens`` (Dr. GRPO)."""
    constant_tokens: Count | None = None
    """The longest a rollout's written tokens may be; for ``constant``."""
    kl: KlSettings | None = None
    """None = no KL term, and no reference weights are kept."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        if self.clip_low == 1 and self.kind != "cispo":
            yield f"clip_low must be in (0, 1) with kind={self.kind!r}, got {self.clip_low!r}"
        if self.dual_clip is not None and self.dual_clip <= 1 + self.clips.high:
            yield f"dual_clip must be more than 1 + clip_high, got {self.dual_clip!r}"
        yield useless(
            self.dual_clip is not None and self.kind != "clipped",
            f"dual_clip={self.dual_clip!r}",
            f"with kind={self.kind!r}; take kind='clipped' or leave it out",
        )
        if self.kind == "gspo" and self.aggregation != "sequence_mean":
            yield (
                f"kind='gspo' is a mean over each sequence; aggregation={self.aggregation!r} would weigh its one "
                "ratio by length. Set aggregation='sequence_mean'"
            )
        if self.aggregation == "constant" and self.constant_tokens is None:
            yield "aggregation='constant' needs constant_tokens; set the longest a rollout may be"
        yield useless(
            self.aggregation != "constant" and self.constant_tokens is not None,
            f"constant_tokens={self.constant_tokens!r}",
            f"with aggregation={self.aggregation!r}; take aggregation='constant' or leave it out",
        )

    @property
    def chosen_bounds(self) -> tuple[str, ...]:
        """What is set to bound the ratio in another way than the default does, as ``name=value``."""
        usual = _USUAL_CLIPS["clipped"]
        unusual = {
            "kind": self.kind != "clipped",
            "clip_low": self.clip_low not in {None, usual.low},
            "clip_high": self.clip_high not in {None, usual.high},
            "dual_clip": self.dual_clip is not None,
        }
        return tuple(f"{name}={getattr(self, name)!r}" for name, is_unusual in unusual.items() if is_unusual)

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
    """The trainer's own log-probs before the first step are computed, compared with the sampler's and used as old.

    As it stands this only measures; ``weight`` and ``mask`` act. See ``upturn.training.optimisation.mismatch``,
    with w = π_old / π_sampler.
    """

    weight: WeightLevel = "none"
    """Truncated importance sampling: ``token``: min(w, cap); ``sequence``: min(Πw, cap) at each of its tokens."""
    weight_cap: Positive | None = None
    """None = not bounded, which the mask of the same level has to do then."""
    mask: MaskLevel = "none"
    """What is left out: ``token`` and ``sequence``: w or Πw outside [mask_low, mask_high]; ``geometric``: sequences
    with (Πw)^(1/length) outside; ``k3``: sequences with mean(w − log w − 1) above mask_high."""
    mask_low: Positive | None = None
    """Smallest ratio that stays; not for ``k3``."""
    mask_high: Positive | None = None
    """Largest ratio (``k3``: divergence) that stays."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        high, cap = self.mask_high, self.weight_cap
        is_same_level = self.mask == self.weight and self.weight != "none"
        yield useless(
            self.weight == "none" and cap is not None,
            f"weight_cap={cap!r}",
            "with weight='none'; choose 'token' or 'sequence' or leave it out",
        )
        if self.weight != "none" and cap is None and not is_same_level:
            yield f"weight={self.weight!r} needs weight_cap: a ratio without bound has no bounded variance"
        yield useless(
            is_same_level and cap is not None and cap >= (high or math.inf),
            f"weight_cap={cap!r}",
            f"with mask_high={high!r} on the same level; leave it out or make it smaller",
        )
        yield from self._mask_problems()

    def _mask_problems(self) -> list[str | None]:
        low, high = self.mask_low, self.mask_high
        given = [name for name, value in (("mask_low", low), ("mask_high", high)) if value is not None]
        if self.mask == "none":
            shown = " and ".join(given)
            return [useless(bool(given), shown, "with mask='none'; choose a mask or leave it out")]
        return [
            f"mask={self.mask!r} needs mask_high; set it" if high is None else None,
            f"mask={self.mask!r} needs mask_low; set it" if low is None and self.mask != "k3" else None,
            useless(
                self.mask == "k3" and low is not None,
                f"mask_low={low!r}",
                "with mask='k3', which only has an upper limit; leave it out",
            ),
            f"mask_low={low!r} and mask_high={high!r} must enclose 1, where nothing differs"
            if self.mask != "k3" and low is not None and high is not None and not low < 1 < high
            else None,
        ]


@settings
class DynamicSamplingSettings(Settings):
    """Groups without a signal are replaced by further ones (DAPO, arXiv 2503.14476, section 3.2).

    They then count in no denominator; all that was sampled is counted in the metrics. Departure: a round's surplus
    is trained on, not thrown away.
    """

    groups: Count | None = None
    """Groups with a signal that an iteration wants; None = as many as its first round has groups."""
    max_rounds: Annotated[int, Field(ge=2, le=99)] = 3
    """Rounds of collecting in one iteration, the first included; what there is then is trained on."""


def is_ratio_one(minibatches: int, passes: int, mismatch: object) -> bool:
    """True when an iteration's only step meets the very weights that its old log-probs are recomputed with.

    Recorded log-probs are the sampler's, which may differ: there a bound on the ratio can act.
    """
    return minibatches == 1 and passes == 1 and mismatch is not None


@settings
class PolicyGradientSettings(IterationSettings):
    """Policy optimisation on groups of trajectories, fresh or stored."""

    minibatches: Count = 2
    """Optimiser steps that one pass over an iteration's groups is split into. A group stays in one of them: where
    fewer have a gradient, there are fewer steps (``optimiser_steps`` on the curve)."""
    passes: Count = 1
    """How often an iteration's trajectories are used."""
    objective: ObjectiveSettings = ObjectiveSettings()
    """The loss and how it is averaged."""
    advantage: AdvantageSettings = AdvantageSettings()
    """What a turn is credited with (docs/training.md)."""
    mismatch: MismatchSettings | None = None
    """What to do about a sampler whose log-probs are not the trainer's; left out = its recorded log-probs are taken
    for the trainer's own, which saves a pass over the rows."""
    dynamic_sampling: DynamicSamplingSettings | None = None
    """Groups without a signal are replaced by further ones; left out = an iteration samples once, and groups
    without a signal stay in the denominator."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield from super().problems()
        limit = self.objective.stale_limit
        if limit is not None and self.mismatch is not None:
            yield (
                f"objective.stale_limit={limit!r} measures the gap to the sampler, which recomputed log-probs "
                f"hide: "
                "leave mismatch out, or take a mismatch.mask by sequence instead"
            )
        yield useless(
            self.dynamic_sampling is not None and self.advantage.baseline == "none",
            "dynamic_sampling",
            "with advantage.baseline='none', where every group has a signal; leave one out",
        )
        if is_ratio_one(self.minibatches, self.passes, self.mismatch):
            for chosen in self.objective.chosen_bounds:
                yield useless(
                    True,
                    f"objective.{chosen}",
                    "with minibatches=1, passes=1 and mismatch: the only step of an iteration meets the weights "
                    "that its old log-probs are recomputed with, so every ratio is 1. Set more minibatches or "
                    "passes, or leave it out",
                )
