"""What learning from preferences can be told. No torch here; every class checks itself when it is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from upturn.training.ppo_settings import CriticSettings
from upturn.training.run_settings import Keep, plan_problems, watch_problems
from upturn.training.settings import Decay, OptimiserSettings
from upturn.training.validators import is_not_negative, is_positive, refuse, unless, unless_missing, useless

PairLoss = Literal["sigmoid", "ipo"]
"""``sigmoid``: DPO's. ``ipo``: a square around a fixed margin, for preferences that are certain."""
Reference = Literal["recorded", "initial"]
"""The policy that preferences are measured from. ``recorded``: whoever sampled, by the log-probs in the rows;
``initial``: the weights before training."""
PairedBy = Literal["trajectory", "turn"]
"""``trajectory``: the best attempt of a group against the worst. ``turn``: actions after one history."""
ValuedBy = Literal["returns", "state_values"]
"""What an action was worth: what the attempts that took it went on to earn, or its reward and the measured value of
the state it led to."""


@dataclass(frozen=True, slots=True)
class PairObjectiveSettings:
    """The loss of pairs."""

    kind: PairLoss = "sigmoid"
    beta: float = 0.1
    """How strongly the reference holds: smaller lets the model move further for the same preference."""
    label_smoothing: float = 0.0
    """Share of pairs taken to be the wrong way round (conservative DPO); in [0, 0.5)."""
    is_length_normalised: bool = False
    """Each side's log-probabilities are averaged over its written tokens instead of added up, so that a longer side
    has no louder voice."""
    sft_coefficient: float | None = None
    """Of a supervised term on the better sides (arXiv 2404.19733), whose probability may else fall along with the
    others'; None = no such term."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless(self.beta, "beta", "positive", is_positive),
            unless(self.label_smoothing, "label_smoothing", "in [0, 0.5)", lambda value: 0 <= value < 0.5),
            unless_missing(self.sft_coefficient, "sft_coefficient", "positive or None (no term)", is_positive),
            useless(
                self.kind == "ipo" and self.label_smoothing != 0,
                f"label_smoothing={self.label_smoothing!r}",
                "with kind='ipo', whose margin is bounded already; leave it out, or take kind='sigmoid'",
            ),
        )


@dataclass(frozen=True, slots=True)
class PairSettings:
    """How the attempts of a group become pairs."""

    by: PairedBy = "trajectory"
    min_margin: float = 0.0
    """Pairs are kept where one side is better by more than this (θ of Agent Q)."""
    valued_by: ValuedBy = "returns"
    """Of single turns only."""
    monte_carlo_share: float = 1.0
    """α of Agent Q: Q = α·(what was earned) + (1 − α)·(what the critic thinks); 1 = there is no critic."""
    gamma: float = 1.0
    """Discount per turn, also of a critic that learns."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        whole = self.by == "trajectory"
        cure = "with by='trajectory', which compares whole attempts by what they earned; leave it out, or by='turn'"
        refuse(
            unless(self.min_margin, "min_margin", "0 or more", is_not_negative),
            unless(self.monte_carlo_share, "monte_carlo_share", "in [0, 1]", lambda value: 0 <= value <= 1),
            unless(self.gamma, "gamma", "in [0, 1]", lambda value: 0 <= value <= 1),
            useless(whole and self.valued_by != "returns", f"valued_by={self.valued_by!r}", cure),
            useless(whole and self.monte_carlo_share != 1, f"monte_carlo_share={self.monte_carlo_share!r}", cure),
            useless(
                self.monte_carlo_share == 0 and self.valued_by != "returns",
                f"valued_by={self.valued_by!r}",
                "with monte_carlo_share=0, where the critic alone says what an action is worth; leave it out",
            ),
        )


@dataclass(frozen=True, slots=True)
class DpoSettings:
    """Direct preference optimisation on pairs that are there before training."""

    epochs: int = 1
    batch_pairs: int = 32
    """Pairs of one optimiser step."""
    objective: PairObjectiveSettings = field(default_factory=PairObjectiveSettings)
    reference: Reference = "initial"
    optimiser: OptimiserSettings = field(default_factory=lambda: OptimiserSettings(learning_rate=1e-4))
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
            unless(self.batch_pairs, "batch_pairs", "at least 1", is_positive),
            *watch_problems(self),
        )


@dataclass(frozen=True, slots=True)
class DpoRoundsSettings:
    """Direct preference optimisation on pairs of the model's own attempts, sampled anew in every round."""

    rounds: int = 10
    pairs: PairSettings = field(default_factory=PairSettings)
    epochs: int = 1
    """How often a round's pairs are used."""
    batch_pairs: int = 32
    """Pairs of one optimiser step."""
    objective: PairObjectiveSettings = field(default_factory=PairObjectiveSettings)
    reference: Reference = "recorded"
    """``recorded``: the weights that a round began with, since they sampled its attempts."""
    optimiser: OptimiserSettings = field(default_factory=lambda: OptimiserSettings(learning_rate=1e-4))
    decay: Decay = "none"
    """How the learning rate falls over the rounds."""
    evaluate_every: int | None = 1
    """Rounds between two evaluations; None = never evaluated. The first comes before any training."""
    target_score: float | None = None
    """Training stops once an evaluation reaches it; None = no target."""
    patience: int | None = None
    """Training stops after this many evaluations in a row without a new best; None = never for this reason."""
    cost_limits: Mapping[str, float] = field(default_factory=dict)
    """The most that each of these costs may be in an evaluation: weights that cost more are never kept."""
    keep: Keep = "best"
    checkpoint_every: int = 1
    """Rounds between two checkpoints."""
    critic: CriticSettings | None = None
    """How a critic of the run's own learns, for ``pairs.monte_carlo_share`` below 1; in its ``alone_iterations``
    that share is 1. None = there is no critic, or the caller has one that does not learn."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        share, alone = self.pairs.monte_carlo_share, 0 if self.critic is None else self.critic.alone_iterations
        refuse(
            useless(
                self.critic is not None and share == 1,
                "critic",
                "with monte_carlo_share=1, where nobody asks it; set a smaller share, or leave the critic out",
            ),
            useless(
                self.critic is None and share == 0 and self.pairs.gamma != 1,
                f"gamma={self.pairs.gamma!r}",
                "with monte_carlo_share=0 and a critic that does not learn; leave it out",
            ),
            f"critic.alone_iterations={alone!r} leaves no round of {self.rounds!r} in which the critic is asked; "
            "set fewer, or more rounds"
            if 0 < self.rounds <= alone
            else None,
            unless(self.rounds, "rounds", "at least 1", is_positive),
            unless(self.epochs, "epochs", "at least 1", is_positive),
            unless(self.batch_pairs, "batch_pairs", "at least 1", is_positive),
            *plan_problems(self),
        )


@dataclass(frozen=True, slots=True)
class KtoSettings:
    """Kahneman-Tversky optimisation on attempts rated one by one; the reference is the initial weights."""

    epochs: int = 1
    batch_trajectories: int = 32
    """Rated attempts of one optimiser step."""
    beta: float = 0.1
    """How strongly the reference holds: smaller lets the model move further for the same rating."""
    desirable_weight: float = 1.0
    """λ_D. The paper (eq. 8) advises a λ_D·n_D / (λ_U·n_U) between 1 and 4/3, for n_D good and n_U bad attempts."""
    undesirable_weight: float = 1.0
    """λ_U."""
    optimiser: OptimiserSettings = field(default_factory=lambda: OptimiserSettings(learning_rate=1e-4))
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
            unless(self.batch_trajectories, "batch_trajectories", "at least 1", is_positive),
            unless(self.beta, "beta", "positive", is_positive),
            unless(self.desirable_weight, "desirable_weight", "positive", is_positive),
            unless(self.undesirable_weight, "undesirable_weight", "positive", is_positive),
            *watch_problems(self),
        )
