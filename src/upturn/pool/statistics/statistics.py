"""Statistics of a selection of the pool, computed by the database.

A group is all selected trajectories of one task by one agent version. pass^k is the probability that k trajectories
of a group, drawn without replacement, all succeed, averaged over groups with at least k trajectories: C(c, k) /
C(n, k) for c successes in n trajectories (τ-bench, arXiv 2406.12045, section 3). A missing evaluation counts as no
success in every rate and is reported separately. If nothing is evaluated, there is no rate.
"""

from collections.abc import Mapping, Sequence
from math import comb
from typing import Any, NamedTuple

from sqlalchemy import Connection, Subquery, case, func, select

from upturn.pool import schema
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection, in_scope, select_trajectories
from upturn.records import EvaluationVerdict, Result

LARGEST_K = 8
"""Largest k of pass^k; for larger k there are usually few groups."""


class Counts(NamedTuple):
    """Number of a tenant's records by kind."""

    tasks: int
    decisions: int
    trajectories: int
    evaluations: int
    feedback: int


class PassK(NamedTuple):
    """pass^k for one k."""

    k: int
    value: float
    groups: int
    """Number of groups with at least k trajectories."""


class FamilyStatistics(NamedTuple):
    """Counts of one family's trajectories."""

    family: str
    trajectories: int
    successes: int
    missing: int


class AgentStatistics(NamedTuple):
    """Counts of one agent version's trajectories."""

    agent_version: str
    trajectories: int
    successes: int
    missing: int


class Statistics(NamedTuple):
    """Statistics of the selected trajectories."""

    trajectories: int
    tasks: int
    groups: int
    turns: int
    """Number of turns of the agent."""
    with_tools: int
    """Number of trajectories with at least one tool call."""
    successes: int
    failures: int
    missing: int
    """Number of trajectories without a verdict."""
    pass_k: tuple[PassK, ...]
    """For k from 1; empty = nothing is evaluated."""
    histograms: Mapping[int, Mapping[int, int]]
    """By group size n: number of groups by their successes, from 0 to n."""
    comparable_groups: int
    """Number of groups with at least two scores."""
    zero_variance_groups: int
    """Number of comparable groups with equal scores; their relative advantages are 0."""
    success_turns: float | None
    """Mean number of turns of successes; None = no successes."""
    failure_turns: float | None
    """Mean number of turns of failures; None = no failures."""
    families: tuple[FamilyStatistics, ...]
    agents: tuple[AgentStatistics, ...]
    """By agent version, in the order of the ids."""
    outcomes: Mapping[str, int]
    """Number of trajectories by outcome, the most common first."""

    @property
    def tool_adoption(self) -> float | None:
        """Share of trajectories with at least one tool call; None = no trajectories."""
        return self.with_tools / self.trajectories if self.trajectories else None

    @property
    def zero_variance_share(self) -> float | None:
        """Share of comparable groups without variance; None = no comparable groups."""
        return self.zero_variance_groups / self.comparable_groups if self.comparable_groups else None

    def results(self) -> Sequence[Result]:
        """Returns the statistics as results, without undefined ones."""
        optional = (
            ("tool_adoption", self.tool_adoption, "", self.trajectories),
            *((f"pass^{entry.k}", entry.value, "", entry.groups) for entry in self.pass_k),
            ("zero_variance_share", self.zero_variance_share, "", self.comparable_groups),
            ("turns_on_success", self.success_turns, "turns", self.successes),
            ("turns_on_failure", self.failure_turns, "turns", self.failures),
        )
        return [
            Result("trajectories", float(self.trajectories)),
            Result("tasks", float(self.tasks)),
            Result("groups", float(self.groups)),
            Result("turns", float(self.turns)),
            Result("trajectories_with_tools", float(self.with_tools)),
            *(Result(f"outcome_{name}", float(count)) for name, count in self.outcomes.items()),
            Result("missing_evaluations", float(self.missing)),
            *(Result(name, value, unit, n=n) for name, value, unit, n in optional if value is not None),
        ]


def counts(pool: PoolReader, *, tenant: Scope) -> Counts:
    """Returns the number of stored records by kind."""
    tables = (schema.tasks, schema.decisions, schema.trajectories, schema.evaluations, schema.feedback)
    queries = [select(func.count(table.c.id)).where(*in_scope(table.c.tenant, tenant)) for table in tables]
    with pool.engine.connect() as connection:
        return Counts(*(connection.execute(query).scalar_one() for query in queries))


def call_cost(pool: PoolReader, *, tenant: Scope) -> float | None:
    """Returns the cost of the stored model calls in US dollars; None = no call has a price."""
    table = schema.calls
    query = select(func.sum(table.c.cost_usd)).where(*in_scope(table.c.tenant, tenant))
    with pool.engine.connect() as connection:
        return _float(connection.execute(query).scalar())


def statistics(pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING) -> Statistics:
    """Returns the statistics of the selected trajectories, all from one state of the pool."""
    table = schema.trajectories
    # One transaction reads one state of the pool, so the sequence numbers need no limit.
    selected = select_trajectories(selection, tenant, until=2**62).subquery("selected")
    points = (
        select(
            table.c.task_id,
            table.c.agent_version,
            table.c.turn_count,
            table.c.tool_turns,
            table.c.outcome,
            selected.c.family,
            selected.c.verdict,
            selected.c.score,
        )
        .join(selected, selected.c.trajectory_id == table.c.id)
        .subquery("points")
    )
    with pool.engine.connect() as connection:
        return _gather(connection, points)


def _gather(connection: Connection, points: Subquery) -> Statistics:
    totals = connection.execute(_totals(points)).one()
    sizes = connection.execute(_sizes(points)).all()
    comparable = [row for row in sizes if row.scored >= 2]
    evaluated = totals.successes + totals.failures
    return Statistics(
        trajectories=totals.trajectories,
        tasks=totals.tasks,
        groups=sum(row.groups for row in sizes),
        turns=totals.turns,
        with_tools=totals.with_tools,
        successes=totals.successes,
        failures=totals.failures,
        missing=totals.trajectories - evaluated,
        pass_k=_pass_k([(row.n, row.successes, row.groups) for row in sizes]) if evaluated else (),
        histograms=_histograms(sizes),
        comparable_groups=sum(row.groups for row in comparable),
        zero_variance_groups=sum(row.groups for row in comparable if row.is_flat),
        success_turns=_float(totals.success_turns),
        failure_turns=_float(totals.failure_turns),
        families=tuple(FamilyStatistics(*row) for row in connection.execute(_by(points, "family"))),
        agents=tuple(AgentStatistics(*row) for row in connection.execute(_by(points, "agent_version"))),
        outcomes={row.outcome: row.trajectories for row in connection.execute(_outcomes(points))},
    )


def _float(value: Any) -> float | None:
    """Returns a mean as a float; some databases return decimals."""
    return None if value is None else float(value)


def _number_of(points: Subquery, verdict: EvaluationVerdict) -> Any:
    """Returns the number of points with this verdict, also for no points."""
    return func.coalesce(func.sum(case((points.c.verdict == verdict, 1), else_=0)), 0)


def _totals(points: Subquery) -> Any:
    def mean_turns(verdict: EvaluationVerdict) -> Any:
        return func.avg(case((points.c.verdict == verdict, points.c.turn_count)))

    return select(
        func.count().label("trajectories"),
        func.count(points.c.task_id.distinct()).label("tasks"),
        func.coalesce(func.sum(points.c.turn_count), 0).label("turns"),
        func.coalesce(func.sum(case((points.c.tool_turns > 0, 1), else_=0)), 0).label("with_tools"),
        _number_of(points, "success").label("successes"),
        _number_of(points, "failure").label("failures"),
        mean_turns("success").label("success_turns"),
        mean_turns("failure").label("failure_turns"),
    ).select_from(points)


def _sizes(points: Subquery) -> Any:
    """Returns the number of groups by size, successes, number of scores, and whether all scores are equal."""
    grouped = (
        select(
            func.count().label("n"),
            _number_of(points, "success").label("successes"),
            func.count(points.c.score).label("scored"),
            case((func.max(points.c.score) == func.min(points.c.score), 1), else_=0).label("is_flat"),
        )
        .group_by(points.c.task_id, points.c.agent_version)
        .subquery("grouped")
    )
    shape = (grouped.c.n, grouped.c.successes, grouped.c.scored, grouped.c.is_flat)
    return select(*shape, func.count().label("groups")).group_by(*shape).order_by(*shape)


def _by(points: Subquery, column: str) -> Any:
    """Returns the number of points, successes and missing verdicts by the values of a column."""
    key = points.c[column]
    numbers = (func.count(), _number_of(points, "success"), _number_of(points, "missing"))
    return select(key, *numbers).group_by(key).order_by(key)


def _outcomes(points: Subquery) -> Any:
    number = func.count().label("trajectories")
    return select(points.c.outcome, number).group_by(points.c.outcome).order_by(number.desc(), points.c.outcome)


def _pass_k(sizes: Sequence[tuple[int, int, int]]) -> tuple[PassK, ...]:
    """Returns pass^k for k from 1; ``sizes`` are (n, successes, number of such groups)."""
    largest = min(LARGEST_K, max((n for n, _, _ in sizes), default=0))
    entries: list[PassK] = []
    for k in range(1, largest + 1):
        large_enough = [(n, successes, groups) for n, successes, groups in sizes if n >= k]
        number = sum(groups for _, _, groups in large_enough)
        total = sum(groups * comb(successes, k) / comb(n, k) for n, successes, groups in large_enough)
        entries.append(PassK(k, total / number, number))
    return tuple(entries)


def _histograms(sizes: Sequence[Any]) -> Mapping[int, Mapping[int, int]]:
    histograms: dict[int, dict[int, int]] = {}
    for row in sizes:
        by_successes = histograms.setdefault(row.n, dict.fromkeys(range(row.n + 1), 0))
        by_successes[row.successes] += row.groups
    return histograms
