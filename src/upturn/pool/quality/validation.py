"""All gates over a selection of the pool: the share that passes each one, and why the others do not.

Reads each data point once. What is compared over all of them (duplicates, families) is kept in some 250 bytes a
trajectory.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from upturn.pool.quality.anomalies import anomalies
from upturn.pool.quality.contamination import HeldOut, leak
from upturn.pool.quality.duplicates import DuplicateFinder, Twin
from upturn.pool.quality.gate import GATES, Gate
from upturn.pool.quality.inspection import inspect
from upturn.pool.quality.words import work_words
from upturn.pool.reader import Experience, PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection

MOST_EXAMPLES = 20
"""Failures that are kept of each gate."""
_LIMITS = ("step_limit", "token_limit", "time_limit")


class Failure(NamedTuple):
    """A data point that failed a gate."""

    record_id: str
    """Id of the trajectory; name of the family, for ``plausible``."""
    problem: str


class GateReport(NamedTuple):
    """A gate over all data points."""

    gate: Gate
    points: int
    """Data points that it applies to."""
    failed: int
    examples: tuple[Failure, ...]
    """The first failures, at most ``MOST_EXAMPLES``."""

    @property
    def share(self) -> float:
        """Of the points that pass; 1.0 without points."""
        return 1.0 - self.failed / self.points if self.points else 1.0


class ValidationReport(NamedTuple):
    """The quality of a selection."""

    points: int
    clean: int
    """Points that pass all required gates."""
    gates: tuple[GateReport, ...]


def validate_quality(
    pool: PoolReader,
    *,
    tenant: Scope,
    selection: Selection = EVERYTHING,
    held_out: Iterable[tuple[str, str]] = (),
) -> ValidationReport:
    """Returns the report; ``held_out`` are further instructions that must not be trained on, by name, besides those
    of the pool's held-out tasks."""
    stored = (
        (f"task {task.id}", task.instruction) for task in pool.tasks(tenant=tenant) if task.split == "heldout"
    )
    latest = {version.agent: version.weights_hash for version in pool.agent_versions() if version.weights_hash}
    validation = _Validation(HeldOut([*stored, *held_out]), latest)
    for experience in pool.experiences(selection, tenant=tenant):
        validation.add(experience)
    return validation.report()


class _Validation:
    """Counts failures as data points come; single use."""

    def __init__(self, held_out: HeldOut, latest: dict[str, str]) -> None:
        self._held_out, self._latest = held_out, latest
        self._points, self._failed = Counter[str](), Counter[str]()
        self._examples = defaultdict[str, list[Failure]](list)
        self._ids: list[str] = []
        self._clean = 0
        self._finder = DuplicateFinder()
        self._families = defaultdict[tuple[str, str], list[int]](lambda: [0, 0])
        """Successes and judged trajectories."""

    def add(self, experience: Experience) -> None:
        """Checks one data point."""
        task, trajectory, evaluation = experience
        self._ids.append(trajectory.id)
        inspection = inspect(experience)
        self._clean += inspection.is_clean
        for gate in inspection.gates:
            self._count(gate.name, trajectory.id, gate.detail)
        self._count("untruncated", trajectory.id, trajectory.outcome if trajectory.outcome in _LIMITS else "")
        self._count("unleaked", trajectory.id, leak(task, trajectory))
        if task.split == "train":
            self._count("uncontaminated", trajectory.id, self._held_out.problem(task.instruction))
        if trajectory.origin == "sampled" and (newest := self._latest.get(trajectory.agent_version.split("@")[0])):
            is_old = newest not in trajectory.model_versions
            self._count("current", trajectory.id, f"sampled by {trajectory.model_version[:12]}" if is_old else "")
        self._finder.add(task.id, work_words(task, trajectory))
        if evaluation is not None and evaluation.verdict != "missing":
            counts = self._families[trajectory.agent_version, task.family]
            counts[0] += evaluation.is_success
            counts[1] += 1

    def report(self) -> ValidationReport:
        """The result, with the gates that compare data points."""
        self._add_twins("unique", self._finder.equal())
        self._add_twins("distinct", self._finder.similar())
        counts = {key: (successes, total) for key, (successes, total) in self._families.items()}
        self._points["plausible"] = len(counts)
        for anomaly in anomalies(counts):
            self._fail("plausible", anomaly.family, anomaly.problem)
        gates = (
            GateReport(gate, self._points[gate.name], self._failed[gate.name], tuple(self._examples[gate.name]))
            for gate in GATES
        )
        return ValidationReport(len(self._ids), self._clean, tuple(gates))

    def _add_twins(self, name: str, twins: Iterator[Twin]) -> None:
        self._points[name] = len(self._ids)
        for twin in twins:
            same = "the words" if twin.similarity == 1 else f"{twin.similarity:.0%} of the words"
            self._fail(name, self._ids[twin.second], f"{same} of {self._ids[twin.first]}, of another task")

    def _count(self, name: str, trajectory_id: str, problem: str) -> None:
        self._points[name] += 1
        if problem:
            self._fail(name, trajectory_id, problem)

    def _fail(self, name: str, record_id: str, problem: str) -> None:
        self._failed[name] += 1
        if len(self._examples[name]) < MOST_EXAMPLES:
            self._examples[name].append(Failure(record_id, problem))
