"""Statistics of a selection of the pool, computed from its points in numpy.

A group is all selected trajectories of one task by one agent version. pass^k is the probability that k trajectories
of a group, drawn without replacement, all succeed, averaged over groups with at least k trajectories: C(c, k) /
C(n, k) for c successes in n trajectories (τ-bench, arXiv 2406.12045, section 3). A missing evaluation counts as no
success in every rate and is reported separately. If nothing is evaluated, there is no rate.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from upturn.pool import schema
from upturn.pool.points import VERDICTS, PointColumns, Stratum, select_points
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection, in_scope
from upturn.records import Result

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
    queries = [select(func.count()).select_from(table).where(*in_scope(table.c.tenant, tenant)) for table in tables]
    with pool.engine.connect() as connection:
        return Counts(*(connection.execute(query).scalar_one() for query in queries))


def call_cost(pool: PoolReader, *, tenant: Scope) -> float | None:
    """Returns the cost of the stored model calls in US dollars; None = no call has a price."""
    table = schema.calls
    query = select(func.sum(table.c.cost_usd)).where(*in_scope(table.c.tenant, tenant))
    with pool.engine.connect() as connection:
        total = connection.execute(query).scalar()
    return None if total is None else float(total)


def statistics(pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING) -> Statistics:
    """Returns the statistics of the selected trajectories, all from one state of the pool."""
    with pool.engine.connect() as connection:
        points = select_points(connection, selection, tenant=tenant)
    verdicts = points.column("verdict")
    succeeded, failed = verdicts == VERDICTS.index("success"), verdicts == VERDICTS.index("failure")
    successes, failures = int(succeeded.sum()), int(failed.sum())
    turns = points.column("turn_count")
    sizes, tasks = _sizes(points, succeeded)
    comparable = [row for row in sizes if row.scored >= 2]
    strata = _by_stratum(points, succeeded, verdicts == VERDICTS.index("missing"))
    outcomes = _summed(strata, lambda stratum: stratum.outcome)
    return Statistics(
        trajectories=len(turns),
        tasks=tasks,
        groups=sum(row.groups for row in sizes),
        turns=int(turns.sum(dtype=np.int64)),
        with_tools=int((points.rows["tool_turns"] > 0).sum()),
        successes=successes,
        failures=failures,
        missing=len(turns) - successes - failures,
        pass_k=_pass_k([(row.n, row.successes, row.groups) for row in sizes]) if successes + failures else (),
        histograms=_histograms(sizes),
        comparable_groups=sum(row.groups for row in comparable),
        zero_variance_groups=sum(row.groups for row in comparable if row.is_flat),
        success_turns=_mean(turns[succeeded]),
        failure_turns=_mean(turns[failed]),
        families=tuple(FamilyStatistics(*row) for row in sorted(_summed(strata, lambda stratum: stratum.family))),
        agents=tuple(
            AgentStatistics(*row) for row in sorted(_summed(strata, lambda stratum: stratum.agent_version))
        ),
        outcomes={name: count for name, count, *_ in sorted(outcomes, key=lambda row: (-row[1], row[0]))},
    )


def _mean(turns: NDArray[Any]) -> float | None:
    """Returns None for no turns."""
    return float(turns.mean()) if len(turns) else None


class _Sizes(NamedTuple):
    """How many groups look alike."""

    n: int
    """Trajectories of each."""
    successes: int
    scored: int
    """Trajectories with a score."""
    is_flat: int
    """1 = all scores are equal, and there are some."""
    groups: int


def _sizes(points: PointColumns, succeeded: NDArray[np.bool_]) -> tuple[list[_Sizes], int]:
    """Returns the number of groups by their shape, in the order of the shapes, and the number of tasks."""
    versions = {stratum.agent_version: number for number, stratum in enumerate(points.strata)}
    version = np.array([versions[stratum.agent_version] for stratum in points.strata], np.int64)[points.stratum]
    task = points.column("task")
    if not len(task):
        return [], 0
    order = np.lexsort((version, task))
    task, version, score = task[order], version[order], points.column("score")[order]
    is_next_task = np.diff(task, prepend=task[0] - 1) != 0
    starts = np.flatnonzero(is_next_task | (np.diff(version, prepend=-1) != 0))
    n = np.diff(starts, append=len(task))
    successes = np.add.reduceat(succeeded[order], starts, dtype=np.int64)
    scored = np.add.reduceat(~np.isnan(score), starts, dtype=np.int64)
    is_flat = np.fmax.reduceat(score, starts) == np.fmin.reduceat(score, starts)  # NaN differs from itself
    shapes = (n, successes, scored, is_flat.astype(np.int64))
    _, first, count = np.unique(_codes(shapes), return_index=True, return_counts=True)
    rows = zip(*(column[first].tolist() for column in shapes), count.tolist(), strict=True)
    return sorted(_Sizes(*row) for row in rows), int(is_next_task.sum())


def _codes(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Returns a number for each row that only equal rows share."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = np.unique(codes * (int(column.max()) + 1) + column, return_inverse=True)[1]
    return codes


_Counted = tuple[str, int, int, int]
"""A name with its trajectories, successes and missing verdicts."""


def _by_stratum(
    points: PointColumns, succeeded: NDArray[np.bool_], missing: NDArray[np.bool_]
) -> list[tuple[Stratum, list[int]]]:
    size = len(points.strata)
    masks = (slice(None), succeeded, missing)
    counts = np.stack([np.bincount(points.stratum[mask], minlength=size) for mask in masks], axis=1)
    return [pair for pair in zip(points.strata, counts.tolist(), strict=True) if pair[1][0]]


def _summed(strata: Sequence[tuple[Stratum, list[int]]], name_of: Callable[[Stratum], str]) -> list[_Counted]:
    sums = defaultdict[str, list[int]](lambda: [0, 0, 0])
    for stratum, counts in strata:
        sums[name_of(stratum)] = [
            before + count for before, count in zip(sums[name_of(stratum)], counts, strict=True)
        ]
    return [(name, total, successes, missing) for name, (total, successes, missing) in sums.items()]


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


def _histograms(sizes: Sequence[_Sizes]) -> Mapping[int, Mapping[int, int]]:
    histograms: dict[int, dict[int, int]] = {}
    for row in sizes:
        by_successes = histograms.setdefault(row.n, dict.fromkeys(range(row.n + 1), 0))
        by_successes[row.successes] += row.groups
    return histograms
