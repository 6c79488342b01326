"""Results of single measurements."""

from dataclasses import dataclass, field

from upturn.records import record


@record
class Agreement:
    """Agreement of an estimator's credit with the true change of value in each turn."""

    correlation: float
    """Spearman's, over all turns, averaged over policies of several skills where there are some. 0 where the credit
    of all turns is equal."""
    by_skill: tuple[tuple[float, float], ...]
    """Skill and correlation."""
    tokens: int
    """Sampled tokens, with those of continuations."""


@record
class Ceiling:
    """Reliability of the measured truth."""

    halves: float
    """Spearman's correlation of the changes measured by two halves of the continuations."""
    reliability: float
    """Of all continuations together: 2r / (1 + r), Spearman and Brown."""
    ceiling: float
    """Correlation of an estimator that knew the truth: the root of the reliability."""
    turns: int
    tokens: int


@record
class Truth:
    """Measured changes of value."""

    changes: tuple[float | None, ...]
    """One per turn, in the order of the groups, their members and turns; None = not measured."""
    rollouts: str
    """Digest of the rollouts."""
    ceiling: Ceiling


@record
class TrainingRun:
    """Training with an estimator's credit."""

    tokens: int
    """Tokens sampled until the target was reached, or the whole budget."""
    is_reached: bool
    """False = censored: the target takes more than ``tokens``."""
    curve: tuple[tuple[int, float], ...]
    """Sampled tokens and success, from the start."""


@record
class Hyperparameters:
    """Best hyperparameters of an estimator on tuning seeds, which are not reported."""

    learning_rate: float
    groups: int
    """Per iteration."""
    continuations: int
    tokens: float
    """Mean of ``TrainingRun.tokens`` over the seeds."""


@dataclass(slots=True)
class PartResults:
    """All measurements of one part; by estimator, then by seed in one order."""

    name: str
    agreements: dict[str, list[Agreement]] = field(default_factory=dict)
    runs: dict[str, list[TrainingRun]] = field(default_factory=dict)
    hyperparameters: dict[str, Hyperparameters] = field(default_factory=dict)
    ceilings: list[Ceiling] = field(default_factory=list)
    """By seed; empty where the truth is exact."""
