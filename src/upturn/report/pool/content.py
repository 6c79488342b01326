"""What the page of a pool shows."""

from upturn.records import record
from upturn.report.content import CoverageRow, Estimate


@record
class Group:
    """The trajectories of one family or one agent version."""

    name: str
    success: Estimate | None
    """Share of successes among those with a verdict; None = none has a verdict."""
    trajectories: int
    missing: int
    """Trajectories without a verdict."""


@record
class Period:
    """An hour, a day or a week."""

    label: str
    """Its start, in UTC."""
    success: Estimate | None
    """As in ``Group``."""
    trajectories: int


@record
class PassRow:
    """pass^k: the probability that k trajectories of a task all succeed."""

    k: int
    value: float
    groups: int
    """Tasks with at least k trajectories of one agent version."""


@record
class GateRow:
    """A quality gate over all data points."""

    name: str
    meaning: str
    is_required: bool
    points: int
    failed: int
    example: str
    """The first failure; empty = none."""

    @property
    def share(self) -> float:
        """Of the points that pass."""
        return 1.0 - self.failed / self.points if self.points else 1.0


@record
class Outcome:
    """How trajectories ended."""

    name: str
    trajectories: int


@record
class Volume:
    """Amounts."""

    trajectories: int
    tasks: int
    turns: int
    decisions: int
    feedback: int
    prompt_tokens: int
    written_tokens: int
    work_seconds: float
    """Wall-clock time of all trajectories together."""
    cost_usd: float | None
    """Of the stored model calls; None = no call has a price."""
    with_tools: int
    """Trajectories with at least one tool call."""
    comparable: int
    """Groups of one task and agent version with at least two scores."""
    zero_variance: int
    """Comparable groups with equal scores, which teach a policy gradient nothing."""


@record
class PoolReport:
    """The whole page."""

    pool: str
    tenant: str
    written_at: str
    """UTC."""
    volume: Volume
    success: Estimate | None
    """Of all trajectories with a verdict."""
    clean: Estimate | None
    """Share of data points that pass all required gates; None = no data points."""
    families: tuple[Group, ...]
    agents: tuple[Group, ...]
    periods: tuple[Period, ...]
    pass_k: tuple[PassRow, ...]
    gates: tuple[GateRow, ...]
    coverage: tuple[CoverageRow, ...]
    outcomes: tuple[Outcome, ...]
    problems: tuple[str, ...]
    """Of the database's integrity and of records that were changed; empty = none."""
