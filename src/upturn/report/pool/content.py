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
    unchecked: str = ""
    """How many more it applies to that were not checked, and why; empty = none."""

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
class UsageRow:
    """What a trajectory of one agent version takes; None = not recorded."""

    name: str
    trajectories: int
    written_tokens: float | None
    """Mean."""
    median_seconds: float | None
    p95_seconds: float | None
    timed: int
    """Trajectories with a recorded time."""
    cost: float | None
    """Mean, in the unit of the source."""
    priced: int
    """Trajectories with a recorded cost."""


@record
class ChangeRow:
    """A figure in the earlier and in the later half."""

    name: str
    is_share: bool
    before: float
    after: float
    low: float | None
    """Of the interval of the change; None = too few tasks."""
    high: float | None
    has_changed: bool


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
    usage: tuple[UsageRow, ...]
    drift: tuple[ChangeRow, ...]
    """Of the second half against the first; empty = too few trajectories."""
    problems: tuple[str, ...]
    """Of the database's integrity and of records that were changed; empty = none."""
