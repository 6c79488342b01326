"""What one measurement finds out."""

from dataclasses import dataclass, field

from upturn.records import record


@record
class Ranked:
    """How a contender's credit agrees with what turns really changed."""

    correlation: float
    """Spearman's, over all turns; the mean over policies of several skills where there are some. 0 where a
    contender gives all turns the same."""
    by_skill: tuple[tuple[float, float], ...]
    """Skill and correlation."""
    tokens: int
    """Sampled for it, continuations included."""


@record
class Ceiling:
    """How far the measured truth can be trusted."""

    halves: float
    """Spearman's correlation of the changes measured by two halves of the continuations."""
    reliability: float
    """Of all continuations together: 2r / (1 + r), Spearman and Brown."""
    ceiling: float
    """What an estimator that knew the truth would reach: the root of the reliability."""
    turns: int
    tokens: int


@record
class Truth:
    """What turns changed, measured."""

    changes: tuple[float | None, ...]
    """Of each turn, in the order of the groups, their members and turns; None = not measured."""
    attempts: str
    """Fingerprint of the attempts."""
    ceiling: Ceiling


@record
class Practised:
    """A policy's course under a contender's credit."""

    tokens: int
    """Sampled until the target was reached, or the whole budget."""
    is_reached: bool
    """False = censored: it would have taken more than ``tokens``."""
    curve: tuple[tuple[int, float], ...]
    """Tokens sampled and success, from the start."""


@record
class Choice:
    """What was chosen for a contender on seeds that are not reported."""

    learning_rate: float
    groups: int
    """Of an iteration."""
    continuations: int
    tokens: float
    """Mean over the seeds of what ``Practised.tokens`` came to."""


@dataclass(slots=True)
class PartFindings:
    """All measurements of one part; by contender, then by seed in one order."""

    name: str
    ranked: dict[str, list[Ranked]] = field(default_factory=dict)
    practised: dict[str, list[Practised]] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    ceilings: list[Ceiling] = field(default_factory=list)
    """By seed; empty where the truth is exact."""
