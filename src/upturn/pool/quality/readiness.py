"""Readiness for training: logged decisions, enough clean data points of enough families, no private data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from sqlalchemy import func, select

from upturn.config import ReadinessConfig
from upturn.pool import schema
from upturn.pool.privacy import has_findings
from upturn.pool.quality.coverage import IMPORTED
from upturn.pool.quality.inspection import inspect
from upturn.pool.reader import Experience, PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection, in_scope
from upturn.records import Evaluation, EvaluationVerdict, Result


class ReadinessCheck(NamedTuple):
    """One requirement."""

    name: str
    value: float
    relation: Literal[">=", "<="]
    threshold: float
    advice: str
    """What to do if it does not hold."""

    @property
    def holds(self) -> bool:
        """Whether the value meets the threshold."""
        return self.value >= self.threshold if self.relation == ">=" else self.value <= self.threshold


class Survey(NamedTuple):
    """Counts of the selected data points, independent of thresholds."""

    decisions: int
    points: int
    clean: int
    families: int
    """Number of families among the clean points."""
    private: int
    """Number of points with privacy findings."""
    failed_gates: dict[str, int]
    """Number of points that failed each gate."""
    imported: int = 0
    """Number of points that other tools recorded, which no arbiter routed."""


class Readiness(NamedTuple):
    """The requirements and whether they hold."""

    survey: Survey
    checks: tuple[ReadinessCheck, ...]

    @property
    def is_ready(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)

    def results(self) -> Sequence[Result]:
        """Returns the checks as results with their bars."""
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


def survey(
    pool: PoolReader, *, tenant: Scope, selection: Selection = EVERYTHING, rewards: Mapping[str, float] = {}
) -> Survey:
    """Counts the selected data points; reads each once, with its tokens.

    ``rewards``: by feedback, by the id of the trajectory; one without an evaluation counts as evaluated by it.
    """
    failed: Counter[str] = Counter()
    families: set[str] = set()
    points = clean = private = imported = 0
    for experience in pool.experiences(selection, tenant=tenant):
        points += 1
        imported += experience.task.environment == IMPORTED
        inspection = inspect(_with_feedback(experience, rewards))
        failed.update(gate.name for gate in inspection.gates if not gate.is_passed)
        private += has_findings(experience.task, experience.trajectory)
        if inspection.is_clean:
            clean += 1
            families.add(experience.task.family)
    table = schema.decisions
    with pool.engine.connect() as connection:
        query = select(func.count()).select_from(table).where(*in_scope(table.c.tenant, tenant))
        decisions = connection.execute(query).scalar_one()
    return Survey(decisions, points, clean, len(families), private, dict(sorted(failed.items())), imported)


def _with_feedback(experience: Experience, rewards: Mapping[str, float]) -> Experience:
    evaluation, reward = experience.evaluation, rewards.get(experience.trajectory.id)
    if reward is None or (evaluation is not None and evaluation.verdict != "missing"):
        return experience
    name, task_id = experience.trajectory.id, experience.task.id
    verdict: EvaluationVerdict = "success" if reward > 0 else "failure"
    judged = Evaluation(f"feedback:{name}", task_id, name, "feedback", verdict, (), {}, {}, reward)
    return experience._replace(evaluation=judged)


def check(survey: Survey, thresholds: ReadinessConfig) -> Readiness:
    """Compares a survey with the thresholds; a pool of imports alone needs no decisions."""
    share = survey.clean / survey.points if survey.points else 0.0
    worst = max(survey.failed_gates, key=lambda name: survey.failed_gates[name], default="none")
    minimums = (
        (
            "decisions",
            survey.decisions,
            thresholds.decisions,
            "route tasks through the arbiter, which logs decisions",
        ),
        ("clean_points", survey.clean, thresholds.points, "collect or ingest more evaluated trajectories"),
        (
            "clean_share",
            share,
            thresholds.clean_share,
            f"see `upturn pool validate`; most points fail the gate {worst!r}",
        ),
        ("families", survey.families, thresholds.categories, "add tasks of other families, or lower the threshold"),
    )
    is_imported = 0 < survey.points == survey.imported and not survey.decisions
    checks = [
        ReadinessCheck(name, value, ">=", minimum, advice)
        for name, value, minimum, advice in (minimums[1:] if is_imported else minimums)
    ]
    if thresholds.privacy:
        advice = (
            "remove personal data at the source and collect anew, or set readiness.privacy = false if it may be "
            "trained on"
        )
        checks.append(ReadinessCheck("private_points", survey.private, "<=", 0, advice))
    return Readiness(survey, tuple(checks))


def readiness(
    pool: PoolReader,
    thresholds: ReadinessConfig,
    *,
    tenant: Scope,
    selection: Selection = EVERYTHING,
    rewards: Mapping[str, float] = {},
) -> Readiness:
    """Returns the readiness of the selected data points; ``rewards``: see ``survey``."""
    return check(survey(pool, tenant=tenant, selection=selection, rewards=rewards), thresholds)
