"""May training begin? The prerequisites, checked against thresholds: the arbiter has collected, enough clean data
points, a large enough clean share, enough families, nothing personal.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sqlalchemy import func, select

from upturn.config import ReadinessConfig
from upturn.pool import schema
from upturn.pool.privacy import has_findings
from upturn.pool.quality import inspect
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection, in_scope
from upturn.records import Result


@dataclass(frozen=True, slots=True)
class ReadinessThresholds:
    """What must be there before training; the defaults are those for production."""

    decisions: int = 1
    """Routing decisions: the arbiter works and collects."""
    points: int = 5000
    """Clean data points."""
    clean_share: float = 0.95
    """Of all selected data points."""
    families: int = 5
    """Task families among the clean data points."""
    private_points: int | None = 0
    """Data points with privacy findings, at most; None = not checked."""


def thresholds_of(config: ReadinessConfig) -> ReadinessThresholds:
    """The thresholds that a configuration file sets."""
    return ReadinessThresholds(
        points=config.points,
        clean_share=config.clean_share,
        families=config.categories,
        private_points=0 if config.privacy else None,
    )


class ReadinessCheck(NamedTuple):
    """One prerequisite."""

    name: str
    value: float
    relation: Literal[">=", "<="]
    threshold: float
    advice: str
    """What to do where it does not hold."""

    @property
    def holds(self) -> bool:
        """True when the value is on the right side of the threshold."""
        return self.value >= self.threshold if self.relation == ">=" else self.value <= self.threshold


class Survey(NamedTuple):
    """What was found in the selected data points; independent of thresholds."""

    decisions: int
    points: int
    clean: int
    families: int
    """Among the clean points."""
    private: int
    """Points with privacy findings."""
    failed_gates: dict[str, int]
    """Points that failed each gate; a point counts for each gate it fails."""


class Readiness(NamedTuple):
    """The prerequisites and whether they hold."""

    survey: Survey
    checks: tuple[ReadinessCheck, ...]

    @property
    def is_ready(self) -> bool:
        """True when every check holds."""
        return all(check.holds for check in self.checks)

    def results(self) -> Sequence[Result]:
        """The checks as results with their bars."""
        return [
            Result(
                name=check.name,
                value=float(check.value),
                n=self.survey.points,
                bar=f"{check.relation} {check.threshold:g}",
                holds=check.holds,
            )
            for check in self.checks
        ]


def survey(pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING) -> Survey:
    """Reads every selected data point once, with its tokens."""
    failed: Counter[str] = Counter()
    families: set[str] = set()
    points = clean = private = 0
    for experience in pool.experiences(selection, tenant=tenant):
        points += 1
        inspected = inspect(experience)
        failed.update(gate.name for gate in inspected.gates if not gate.is_passed)
        private += has_findings(experience.task, experience.trajectory)
        if inspected.is_clean:
            clean += 1
            families.add(experience.task.family)
    table = schema.decisions
    with pool.engine.connect() as connection:
        counted = select(func.count()).select_from(table).where(*in_scope(table.c.tenant, tenant))
        decisions = connection.execute(counted).scalar_one()
    return Survey(decisions, points, clean, len(families), private, dict(sorted(failed.items())))


def judge(found: Survey, thresholds: ReadinessThresholds) -> Readiness:
    """The survey against thresholds: one survey can be judged by several."""
    share = found.clean / found.points if found.points else 0.0
    worst = max(found.failed_gates, key=lambda name: found.failed_gates[name], default="none")
    checks = (
        ReadinessCheck(
            "decisions",
            found.decisions,
            ">=",
            thresholds.decisions,
            "send tasks through the arbiter, so that it logs",
        ),
        ReadinessCheck(
            "clean_points", found.clean, ">=", thresholds.points, "collect or ingest more judged trajectories"
        ),
        ReadinessCheck(
            "clean_share",
            share,
            ">=",
            thresholds.clean_share,
            f"see `upturn pool validate`; the gate failed most often is {worst!r}",
        ),
        ReadinessCheck(
            "families", found.families, ">=", thresholds.families, "add tasks of other families, or lower the bar"
        ),
    )
    return Readiness(found, (*checks, *_private_check(found, thresholds)))


def _private_check(found: Survey, thresholds: ReadinessThresholds) -> Sequence[ReadinessCheck]:
    if thresholds.private_points is None:
        return ()
    advice = "remove personal data at the source, or train on an anonymised export"
    return (ReadinessCheck("private_points", found.private, "<=", thresholds.private_points, advice),)


def readiness(
    pool: PoolReader,
    thresholds: ReadinessThresholds,
    *,
    tenant: Scope,
    selection: Selection = EVERYTHING,
) -> Readiness:
    """Surveys the selected data points and judges them by the thresholds."""
    return judge(survey(pool, tenant=tenant, selection=selection), thresholds)
