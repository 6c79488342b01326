"""What a curriculum can be told. No torch here.

Every class checks itself when it is made and raises ConfigError with all its problems at once; a setting that would
do nothing in the chosen combination is one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from upturn.training.validators import is_positive, refuse, unless, unless_missing, useless

CurriculumPolicy = Literal["uniform", "failure_weighted", "levels"]

USUAL_FLOOR = 0.4
"""Nothing is practised less than 0.4 times as much as what always fails."""
USUAL_MIX: Mapping[int, float] = {1: 0.10, 2: 0.15, 3: 0.25, 4: 0.30, 5: 0.20}
"""By level, from single steps (1) to long work across apps (5): most of what is hard, the hardest still rare. Where
there are fewer levels, their shares are scaled to 1."""


@dataclass(frozen=True, slots=True)
class GateSettings:
    """Which pools are admitted to practice, by their estimated success p.

    All G attempts of a group earn the same with probability p^G + (1 − p)^G, and then the group teaches nothing.
    DAPO (arXiv 2503.14476, section 3.2) drops such groups after they were sampled; a gate does not sample them.
    """

    low: float = 0.05
    """A pool is closed while p is less …"""
    high: float = 0.95
    """… or more than this. With 8 attempts two groups in three are without a signal at 0.05 and at 0.95."""
    probe_share: float = 0.1
    """Share of the tasks that all closed pools together still get, at most, so that their estimates stay fresh."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless(self.low, "gate.low", "in [0, 1)", lambda value: 0 <= value < 1),
            unless(self.high, "gate.high", "in (0, 1]", lambda value: 0 < value <= 1),
            unless(self.probe_share, "gate.probe_share", "in (0, 1)", lambda value: 0 < value < 1),
            f"gate.low={self.low!r} must be less than gate.high={self.high!r}" if self.low >= self.high else None,
            useless(self.low == 0 and self.high == 1, "a gate", "with low=0 and high=1; narrow it or leave it out"),
        )


@dataclass(frozen=True, slots=True)
class LevelSettings:
    """The schedule by levels: most tasks from the current level, some from the next, a share from easier ones."""

    advance_at: float = 0.7
    """The next level becomes the current one once the current one's success is this or more."""
    ahead_share: float = 0.2
    """Share of the next level in what easier levels leave; the current one has the rest."""
    easier_share: float = 0.15
    """Share of the levels below the current one, against forgetting; 0.1 to 0.2. None of it is gated."""
    max_drop: float = 0.15
    """An easier level whose success is more than this below its best is practised beside the current one until it
    has recovered."""
    final_mix: Mapping[int, float] | None = None
    """Level to share, once the highest level has reached ``advance_at``; None = ``USUAL_MIX``."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        mix = self.final_mix
        refuse(
            unless(self.advance_at, "levels.advance_at", "in (0, 1]", lambda value: 0 < value <= 1),
            unless(self.ahead_share, "levels.ahead_share", "in [0, 1)", lambda value: 0 <= value < 1),
            unless(self.easier_share, "levels.easier_share", "in [0.1, 0.2]", lambda value: 0.1 <= value <= 0.2),
            unless(self.max_drop, "levels.max_drop", "in (0, 1)", lambda value: 0 < value < 1),
            None
            if mix is None or (abs(sum(mix.values()) - 1) < 1e-6 and min(mix.values()) > 0)
            else f"levels.final_mix must have positive shares that add up to 1, got {mix!r}",
        )


@dataclass(frozen=True, slots=True)
class CurriculumSettings:
    """What is practised next, given what came of earlier practice."""

    policy: CurriculumPolicy = "levels"
    """``uniform``: all pools alike. ``failure_weighted``: a pool by what it still fails. ``levels``: the schedule
    of ``levels``, and within a level by what still fails."""
    failure_floor: float | None = None
    """Least weight of a pool, where one that always fails weighs 1; None = 0.4. Not for ``uniform``."""
    window: int = 10
    """Iterations that an estimate is of, the last ones; older attempts say nothing of the weights of now."""
    min_attempts: int = 16
    """A pool with fewer judged attempts in them has no estimate: it is admitted, and it holds its level back."""
    gate: GateSettings | None = None
    """None = every pool is admitted."""
    levels: LevelSettings | None = None
    """None = its defaults, where the policy is ``levels``."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            unless_missing(self.failure_floor, "failure_floor", "in (0, 1]", lambda value: 0 < value <= 1),
            unless(self.window, "window", "at least 1", is_positive),
            unless(self.min_attempts, "min_attempts", "at least 1", is_positive),
            useless(
                self.policy == "uniform" and self.failure_floor is not None,
                f"failure_floor={self.failure_floor!r}",
                "with policy='uniform', where all pools weigh the same; leave it out",
            ),
            useless(
                self.policy != "levels" and self.levels is not None,
                "levels",
                f"with policy={self.policy!r}; take policy='levels' or leave it out",
            ),
        )

    @property
    def floor(self) -> float:
        """The least weight in effect."""
        return USUAL_FLOOR if self.failure_floor is None else self.failure_floor
