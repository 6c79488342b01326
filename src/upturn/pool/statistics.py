"""Figures about a selection of the pool, computed by the database.

A group is all selected trajectories of one task by one agent version. pass^k is the probability that k trajectories
of a task, drawn without replacement, all succeed, averaged over groups: C(c, k) / C(n, k) with c successes of n
trajectories (τ-bench, arXiv 2406.12045, section 3); groups with fewer than k are left out
of that k. A missing evaluation is no success in any rate and is counted separately; where nothing was
judged, there is no rate.
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
"""The largest k of pass^k: beyond it, estimates rest on few groups."""


class Counts(NamedTuple):
    """Numbers of a tenant's records."""

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
    """Groups with at least k trajectories: those averaged over."""


class FamilyStatistics(NamedTuple):
    """One family's trajectories."""

    family: str
    trajectories: int
    successes: int
    missing: int


class Statistics(NamedTuple):
    """Figures of the selected trajectories."""

    trajectories: int
    tasks: int
    groups: int
    turns: int
    """Assistant turns."""
    with_tools: int
    """Trajectories with at least one tool call."""
    successes: int
    failures: int
    missing: int
    """Trajectories without a verdict."""
    pass_k: tuple[PassK, ...]
    """For k from 1; empty where nothing was judged."""
    histograms: Mapping[int, Mapping[int, int]]
    """By group size n: number of groups by their successes, from 0 to n."""
    comparable_groups: int
    """Groups with at least two scores."""
    zero_variance_groups: int
    """Comparable groups with equal scores: their relative advantages are 0."""
    success_turns: float | None
    """Mean assistant turns of successes; None = there are none."""
    failure_turns: float | None
    """Mean assistant turns of judged failures; None = there are none."""
    families: tuple[FamilyStatistics, ...]
    outcomes: Mapping[str, int]
    """Trajectories by how they ended, the commonest first."""

    @property
    def tool_adoption(self) -> float | None:
        """Share of trajectories with at least one tool call; None = no trajectories."""
        return self.with_tools / self.trajectories if self.trajectories else None

    @property
    def zero_variance_share(self) -> float | None:
        """Share of comparable groups without variance; None = no comparable groups."""
        return self.zero_variance_groups / self.comparable_groups if self.comparable_groups else None

    def results(self) -> Sequence[Result]:
        """The figures as results; undefined ones are left out."""
        groups, judged = self.comparable_groups, self.trajectories
        optional = (
            ("tool_adoption", self.tool_adoption, "", judged),
            *((f"pass^{entry.k}", entry.value, "", entry.groups) for entry in self.pass_k),
            ("zero_variance_share", self.zero_variance_share, "", groups),
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
    """How many records of each kind are stored."""
    tables = (schema.tasks, schema.decisions, schema.trajectories, schema.evaluations, schema.feedback)
    with pool.engine.connect() as connection:
        return Counts(
            *(
                connection.execute(
                    select(func.count()).select_from(table).where(*in_scope(table.c.tenant, tenant))
                ).scalar_one()
                for table in tables
            )
        )


def statistics(pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING) -> Statistics:
    """The figures for the selected trajectories; all of them from one state of the pool."""
    table = schema.trajectories
    selected = select_trajectories(selection, tenant, _ENDLESS).subquery("selected")
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


_ENDLESS = 2**62
"""Above all sequence numbers; one transaction is one state of the pool, so no bound is needed."""


def _gather(connection: Connection, points: Subquery) -> Statistics:
    totals = connection.execute(_totals(points)).one()
    sizes = connection.execute(_sizes(points)).all()
    groups = sum(row.groups for row in sizes)
    judged = totals.successes + totals.failures
    return Statistics(
        trajectories=totals.trajectories,
        tasks=totals.tasks,
        groups=groups,
        turns=totals.turns,
        with_tools=totals.with_tools,
        successes=totals.successes,
        failures=totals.failures,
        missing=totals.trajectories - judged,
        pass_k=_pass_k([(row.n, row.successes, row.groups) for row in sizes]) if judged else (),
        histograms=_histograms(sizes),
        comparable_groups=sum(row.groups for row in sizes if row.scored >= 2),
        zero_variance_groups=sum(row.groups for row in sizes if row.scored >= 2 and row.is_flat),
        success_turns=_float(totals.success_turns),
        failure_turns=_float(totals.failure_turns),
        families=tuple(FamilyStatistics(*row) for row in connection.execute(_families(points))),
        outcomes={row.outcome: row.times for row in connection.execute(_outcomes(points))},
    )


def _float(value: Any) -> float | None:
    """A mean as the database gives it; some give decimals."""
    return None if value is None else float(value)


def _times(points: Subquery, verdict: EvaluationVerdict) -> Any:
    """How many points have this verdict, 0 where there are no points."""
    return func.coalesce(func.sum(case((points.c.verdict == verdict, 1), else_=0)), 0)


def _totals(points: Subquery) -> Any:
    def turns_of(verdict: EvaluationVerdict) -> Any:
        return func.avg(case((points.c.verdict == verdict, points.c.turn_count)))

    return select(
        func.count().label("trajectories"),
        func.count(points.c.task_id.distinct()).label("tasks"),
        func.coalesce(func.sum(points.c.turn_count), 0).label("turns"),
        func.coalesce(func.sum(case((points.c.tool_turns > 0, 1), else_=0)), 0).label("with_tools"),
        _times(points, "success").label("successes"),
        _times(points, "failure").label("failures"),
        turns_of("success").label("success_turns"),
        turns_of("failure").label("failure_turns"),
    ).select_from(points)


def _sizes(points: Subquery) -> Any:
    """Number of groups by size, successes, number of scores and whether the scores are all the same."""
    grouped = (
        select(
            func.count().label("n"),
            _times(points, "success").label("successes"),
            func.count(points.c.score).label("scored"),
            case((func.max(points.c.score) == func.min(points.c.score), 1), else_=0).label("is_flat"),
        )
        .group_by(points.c.task_id, points.c.agent_version)
        .subquery("grouped")
    )
    shape = (grouped.c.n, grouped.c.successes, grouped.c.scored, grouped.c.is_flat)
    return select(*shape, func.count().label("groups")).group_by(*shape).order_by(*shape)


def _families(points: Subquery) -> Any:
    return (
        select(points.c.family, func.count(), _times(points, "success"), _times(points, "missing"))
        .group_by(points.c.family)
        .order_by(points.c.family)
    )


def _outcomes(points: Subquery) -> Any:
    times = func.count().label("times")
    return select(points.c.outcome, times).group_by(points.c.outcome).order_by(times.desc(), points.c.outcome)


def _pass_k(sizes: Sequence[tuple[int, int, int]]) -> tuple[PassK, ...]:
    """From (n, successes, number of such groups)."""
    largest = min(LARGEST_K, max((n for n, _, _ in sizes), default=0))
    entries: list[PassK] = []
    for k in range(1, largest + 1):
        able = [(n, successes, groups) for n, successes, groups in sizes if n >= k]
        whole = sum(groups for _, _, groups in able)
        total = sum(groups * comb(successes, k) / comb(n, k) for n, successes, groups in able)
        entries.append(PassK(k, total / whole, whole))
    return tuple(entries)


def _histograms(sizes: Sequence[Any]) -> Mapping[int, Mapping[int, int]]:
    histograms: dict[int, dict[int, int]] = {}
    for row in sizes:
        by_successes = histograms.setdefault(row.n, dict.fromkeys(range(row.n + 1), 0))
        by_successes[row.successes] += row.groups
    return histograms
