"""Readiness for training: decisions are logged, enough data points are clean, of enough families, without private
data.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from sqlalchemy import func, select

from upturn.config import ReadinessConfig
from upturn.pool import schema
from upturn.pool.privacy import has_findings
from upturn.pool.quality import inspect
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection, in_scope
from upturn.records import Result


class ReadinessCheck(NamedTuple):
    """One prerequisite."""

    name: str
    value: float
    relation: Literal[">=", "<="]
    threshold: float
    advice: str
    """What to do when it does not hold."""

    @property
    def holds(self) -> bool:
        """True when the value is on the right side of the threshold."""
        return self.value >= self.threshold if self.relation == ">=" else self.value <= self.threshold


class Survey(NamedTuple):
    """Counts over the selected data points; independent of thresholds."""

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


def check(survey: Survey, thresholds: ReadinessConfig) -> Readiness:
    """The survey compared with the thresholds; one survey serves several."""
    share = survey.clean / survey.points if survey.points else 0.0
    worst = max(survey.failed_gates, key=lambda name: survey.failed_gates[name], default="none")
    checks = (
        ReadinessCheck(
            "decisions",
            survey.decisions,
            ">=",
            thresholds.decisions,
            "route tasks through the arbiter, which logs its decisions",
        ),
        ReadinessCheck(
            "clean_points", survey.clean, ">=", thresholds.points, "collect or ingest more judged trajectories"
        ),
        ReadinessCheck(
            "clean_share",
            share,
            ">=",
            thresholds.clean_share,
            f"see `upturn pool validate`; the gate failed most often is {worst!r}",
        ),
        ReadinessCheck(
            "families",
            survey.families,
            ">=",
            thresholds.categories,
            "add tasks of other families, or lower the bar",
        ),
    )
    return Readiness(survey, (*checks, *_private_check(survey, thresholds)))


def _private_check(survey: Survey, thresholds: ReadinessConfig) -> Sequence[ReadinessCheck]:
    if not thresholds.privacy:
        return ()
    advice = "remove personal data at the source, or train on an anonymised export"
    return (ReadinessCheck("private_points", survey.private, "<=", 0, advice),)


def readiness(
    pool: PoolReader,
    thresholds: ReadinessConfig,
    *,
    tenant: Scope,
    selection: Selection = EVERYTHING,
) -> Readiness:
    """Surveys the selected data points and compares them with the thresholds."""
    return check(survey(pool, tenant=tenant, selection=selection), thresholds)
