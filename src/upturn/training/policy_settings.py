"""What a policy gradient can be told beside its optimiser: objective, KL, mismatch, sampling. No torch here.

Every class checks itself when it is made and raises ConfigError with all its problems at once; a setting that would
do nothing in the chosen combination is one of them.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from upturn.training.validators import is_positive, refuse, unless, unless_missing, useless

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


@dataclass(frozen=True, slots=True)
class KlSettings:
    """KL divergence to the weights before training, as a term of the loss; see ``losses.divergence``."""

    coefficient: float
    """β, positive. Where there is a target: what it starts from."""
    estimator: KlEstimator = "k3"
    unbiased: bool = False
    """Whether the estimate is multiplied by the probability ratio, with its gradient; for k1 and k3."""
    target: float | None = None
    """KL per token that the coefficient is adapted to; None = it stays."""
    horizon: int | None = None
    """Trajectories over which the coefficient adapts; needs a target."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        is_k1_alone = self.estimator == "k1" and not self.unbiased
        refuse(
            unless(self.coefficient, "kl.coefficient", "positive (leave kl out for none)", is_positive),
            unless_missing(self.target, "kl.target", "positive or None (the coefficient stays)", is_positive),
            unless_missing(self.horizon, "kl.horizon", "at least 1", is_positive),
            useless(
                is_k1_alone,
                "kl.estimator='k1'",
                "as a loss: the mean of its gradient is 0; set kl.unbiased=True, or take 'k2' or 'k3'",
            ),
            None
            if not self.unbiased or self.estimator in {"k1", "k3"}
            else f"kl.unbiased=True cannot make kl.estimator={self.estimator!r} unbiased; take 'k1' or 'k3'",
            None
            if self.target is None or self.horizon is not None
            else f"kl.target={self.target!r} needs kl.horizon; set over how many trajectories it adapts",
            useless(
                self.target is None and self.horizon is not None,
                f"kl.horizon={self.horizon!r}",
                "without kl.target; set both or neither",
            ),
        )


@dataclass(frozen=True, slots=True)
class ObjectiveSettings:
    """The per-token policy loss and how it is averaged."""

    kind: ObjectiveKind = "clipped"
    """``clipped``: PPO's surrogate by token. ``gspo``: the same with one ratio for a whole rollout; it differs from
    ``clipped`` only once the model has left the sampler, so with several minibatches or passes. ``turn``: one ratio
    for each turn of a rollout. ``cispo``: a bounded ratio as constant weight of the log-prob."""
    clip_low: float | None = None
    """The ratio is bounded to [1 − clip_low, 1 + clip_high]; None = what is usual for the kind."""
    clip_high: float | None = None
    dual_clip: float | None = None
    """Losses of A < 0 are bounded by −dual_clip·A; more than 1 + clip_high; None = not. For ``clipped`` only."""
    stale_limit: float | None = None
    """Mean log-prob gap to the sampler above which a sequence's tokens with A < 0 are dropped; None = never."""
    aggregation: Aggregation = "token_mean"
    """``token_mean``: over all written tokens (DAPO). ``sequence_mean``: mean over rollouts of the mean over their
    tokens (GRPO, GSPO). ``constant``: the sum over rollouts · ``constant_tokens`` (Dr. GRPO)."""
    constant_tokens: int | None = None
    """The longest a rollout's written tokens may be; for ``constant``."""
    kl: KlSettings | None = None
    """None = no KL term, and no reference weights are kept."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        lowest_is_one = self.kind == "cispo"
        dual = self.dual_clip
        refuse(
            unless_missing(self.clip_low, "clip_low", "in (0, 1] for cispo", lambda value: 0 < value <= 1)
            if lowest_is_one
            else unless_missing(self.clip_low, "clip_low", "in (0, 1)", lambda value: 0 < value < 1),
            unless_missing(self.clip_high, "clip_high", "positive", is_positive),
            unless_missing(dual, "dual_clip", "more than 1 + clip_high", lambda value: value > 1 + self.clips.high),
            unless_missing(self.stale_limit, "stale_limit", "positive", is_positive),
            unless_missing(self.constant_tokens, "constant_tokens", "at least 1", is_positive),
            useless(
                dual is not None and self.kind != "clipped",
                f"dual_clip={dual!r}",
                f"with kind={self.kind!r}; take kind='clipped' or leave it out",
            ),
            f"kind='gspo' is a mean over each sequence; aggregation={self.aggregation!r} would weigh its one ratio "
            "by length. Set aggregation='sequence_mean'"
            if self.kind == "gspo" and self.aggregation != "sequence_mean"
            else None,
            "aggregation='constant' needs constant_tokens; set the longest a rollout may be"
            if self.aggregation == "constant" and self.constant_tokens is None
            else None,
            useless(
                self.aggregation != "constant" and self.constant_tokens is not None,
                f"constant_tokens={self.constant_tokens!r}",
                f"with aggregation={self.aggregation!r}; take aggregation='constant' or leave it out",
            ),
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


@dataclass(frozen=True, slots=True)
class MismatchSettings:
    """The trainer's own log-probs before the first step are computed, compared with the sampler's and used as old.

    As it stands this only measures; ``weight`` and ``mask`` act. See ``upturn.training.optimisation.mismatch``,
    with w = π_old / π_sampler.
    """

    weight: WeightLevel = "none"
    """Truncated importance sampling: ``token``: min(w, cap); ``sequence``: min(Πw, cap) at each of its tokens."""
    weight_cap: float | None = None
    """None = not bounded, which the mask of the same level has to do then."""
    mask: MaskLevel = "none"
    """What is left out: ``token`` and ``sequence``: w or Πw outside [mask_low, mask_high]; ``geometric``: sequences
    with (Πw)^(1/length) outside; ``k3``: sequences with mean(w − log w − 1) above mask_high."""
    mask_low: float | None = None
    mask_high: float | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        low, high, cap = self.mask_low, self.mask_high, self.weight_cap
        is_same_level = self.mask == self.weight and self.weight != "none"
        refuse(
            unless_missing(cap, "mismatch.weight_cap", "positive", is_positive),
            unless_missing(low, "mismatch.mask_low", "positive", is_positive),
            unless_missing(high, "mismatch.mask_high", "positive", is_positive),
            useless(
                self.weight == "none" and cap is not None,
                f"mismatch.weight_cap={cap!r}",
                "with mismatch.weight='none'; choose 'token' or 'sequence' or leave it out",
            ),
            f"mismatch.weight={self.weight!r} needs weight_cap: a ratio without bound has no bounded variance"
            if self.weight != "none" and cap is None and not is_same_level
            else None,
            useless(
                is_same_level and cap is not None and cap >= (high or math.inf),
                f"mismatch.weight_cap={cap!r}",
                f"with mismatch.mask_high={high!r} on the same level; leave it out or make it smaller",
            ),
            *self._mask_problems(),
        )

    def _mask_problems(self) -> list[str | None]:
        low, high = self.mask_low, self.mask_high
        given = [name for name, value in (("mask_low", low), ("mask_high", high)) if value is not None]
        if self.mask == "none":
            shown = " and ".join(f"mismatch.{name}" for name in given)
            return [useless(bool(given), shown, "with mismatch.mask='none'; choose a mask or leave it out")]
        return [
            f"mismatch.mask={self.mask!r} needs mask_high; set it" if high is None else None,
            f"mismatch.mask={self.mask!r} needs mask_low; set it" if low is None and self.mask != "k3" else None,
            useless(
                self.mask == "k3" and low is not None,
                f"mismatch.mask_low={low!r}",
                "with mismatch.mask='k3', which only has an upper limit; leave it out",
            ),
            f"mismatch.mask_low={low!r} and mask_high={high!r} must enclose 1, where nothing differs"
            if self.mask != "k3" and low is not None and high is not None and not low < 1 < high
            else None,
        ]


@dataclass(frozen=True, slots=True)
class DynamicSamplingSettings:
    """Groups without a signal are replaced by further ones (DAPO, arXiv 2503.14476, section 3.2).

    They then count in no denominator; all that was sampled is counted in the metrics. Departure: a round's surplus
    is trained on, not thrown away.
    """

    groups: int | None = None
    """Groups with a signal that an iteration wants; None = as many as its first round has groups."""
    max_rounds: int = 3
    """Rounds of collecting in one iteration, the first included; what there is then is trained on."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless_missing(self.groups, "dynamic_sampling.groups", "at least 1 or None", is_positive),
            unless(self.max_rounds, "dynamic_sampling.max_rounds", "at least 2", lambda value: value >= 2),
        )
