"""What a batch consists of: conditions on data points, their balance, and which of them come first."""

from math import isfinite
from typing import Final, Literal

from upturn.records import EvaluationVerdict, Origin, Outcome, Split, fields_json, record

Axis = Literal["family", "level", "agent", "agent_version"]
"""What a batch can be balanced over."""


@record
class Priorities:
    """How much likelier some points are drawn than others; 0 = all alike.

    A point is drawn with probability proportional to exp(the sum of its values times these), one after the other
    without replacement: with 2, a point of value 1 is e² = 7.4 times as likely as one of value 0. A negative number
    prefers the others.
    """

    success: float = 0.0
    """Value: the point's score; without one, 1 for a success and 0 otherwise."""
    efficiency: float = 0.0
    """Value of a success: its rank by written tokens among the successful candidates of its family, 1 = the fewest,
    0 = the most. Others have 0."""
    novelty: float = 0.0
    """Value: 1 over the number of its task's trajectories among the candidates."""

    def __post_init__(self) -> None:
        for name in ("success", "efficiency", "novelty"):
            value = getattr(self, name)
            if not abs(value) <= _LARGEST_PRIORITY:
                raise ValueError(
                    f"priority {name} must be from -{_LARGEST_PRIORITY} to {_LARGEST_PRIORITY}, got {value!r}"
                )


_LARGEST_PRIORITY = 50
"""exp(50) times as likely is always first."""

UNIFORM: Final = Priorities()


@record
class BatchCriteria:
    """Criteria of data points, which must all hold. An empty tuple or None = any."""

    size: int
    """Number of points; a batch has fewer if fewer meet the criteria."""
    families: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    levels: tuple[int, ...] = ()
    agents: tuple[str, ...] = ()
    """Names of agents, all of whose versions are meant."""
    agent_versions: tuple[str, ...] = ()
    splits: tuple[Split, ...] = ("train",)
    """Held-out tasks are in a batch only where they are asked for."""
    origins: tuple[Origin, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    verdicts: tuple[EvaluationVerdict, ...] = ()
    """``missing`` includes points without an evaluation."""
    tags: tuple[str, ...] = ()
    """Only of tasks that have all of these tags."""
    min_score: float | None = None
    max_score: float | None = None
    since: float | None = None
    """Recorded at or after this time (UTC, seconds since 1970)."""
    before: float | None = None
    """Recorded before this time."""
    is_clean: bool = False
    """True = only points that pass all quality gates. Their records are read, which takes a millisecond each."""
    balance: tuple[Axis, ...] = ()
    """The batch has as many points of each combination of these as of any other, as far as there are."""
    max_per_task: int | None = None
    """At most so many trajectories of one task. None = no limit."""
    max_per_strategy: int | None = None
    """At most so many trajectories of a family with the same actions in the same order, whatever their arguments;
    equal actions in a row count once. None = no limit. Turns are read, which takes part of a millisecond each."""
    priorities: Priorities = UNIFORM
    heldout_share: float = 0.0
    """About this share of the tasks is held out with all of their points; which, depends on seed and task alone."""

    def __post_init__(self) -> None:
        for name in ("size", "max_per_task", "max_per_strategy"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value!r}")
        for name in ("min_score", "max_score", "since", "before"):
            value = getattr(self, name)
            if value is not None and not isfinite(value):
                raise ValueError(f"{name} must be a finite number, or None (no limit), got {value!r}")
        if not 0.0 <= self.heldout_share < 1.0:
            raise ValueError(f"heldout_share must be at least 0 and below 1, got {self.heldout_share!r}")
        if len(set(self.balance)) != len(self.balance):
            raise ValueError(f"balance must name each axis once, got {self.balance!r}")

    @property
    def text(self) -> str:
        """The criteria as canonical JSON."""
        return fields_json(self)
