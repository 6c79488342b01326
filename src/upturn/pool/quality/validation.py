"""All gates over a selection of the pool: the share that passes each one, and why the others do not.

Reads each data point once. What is compared over all of them (duplicates, families) is kept in some 250 bytes a
trajectory.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from time import time
from typing import NamedTuple

from upturn.pool.quality.agreement import ReaderOf, disagreement, no_tokenizers
from upturn.pool.quality.anomalies import anomalies
from upturn.pool.quality.clock import clock_problems, source_time_problem
from upturn.pool.quality.contamination import HeldOut, leak
from upturn.pool.quality.duplicates import DuplicateFinder, Twin
from upturn.pool.quality.gate import GATES, Gate
from upturn.pool.quality.inspection import inspect
from upturn.pool.quality.words import work_words
from upturn.pool.reader import Experience, PoolReader
from upturn.pool.selection import EVERYTHING, Scope, Selection
from upturn.records import Trajectory

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
    unchecked: Mapping[str, int] = {}
    """Number of data points that it applies to and that could not be checked, by reason; not among the points."""

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
    reader_of: ReaderOf = no_tokenizers,
) -> ValidationReport:
    """Returns the report.

    ``held_out``: further instructions that must not be trained on, by name, besides those of the pool's held-out
    tasks. ``reader_of``: the tokenizers of agent versions, for the gate ``agreement``.
    """
    stored = (
        (f"task {task.id}", task.instruction) for task in pool.tasks(tenant=tenant) if task.split == "heldout"
    )
    latest = {version.agent: version.weights_hash for version in pool.agent_versions() if version.weights_hash}
    now = time()
    clocks = {problem.trajectory_id: problem.problem for problem in clock_problems(pool, tenant=tenant, now=now)}
    validation = _Validation(HeldOut([*stored, *held_out]), latest, lru_cache(maxsize=None)(reader_of))
    for experience in pool.experiences(selection, tenant=tenant):
        trajectory = experience.trajectory
        validation.add(experience)
        validation.add_time(trajectory.id, clocks.get(trajectory.id) or source_time_problem(trajectory, now))
    return validation.report()


class _Validation:
    """Counts failures as data points come; single use."""

    def __init__(self, held_out: HeldOut, latest: dict[str, str], reader_of: ReaderOf) -> None:
        self._held_out, self._latest, self._reader_of = held_out, latest, reader_of
        self._unread = Counter[str]()
        """Trajectories with token rows whose tokenizer is not there, by reason."""
        self._points, self._failed = Counter[str](), Counter[str]()
        self._examples = defaultdict[str, list[Failure]](list)
        self._ids: list[str] = []
        self._clean = 0
        self._finder = DuplicateFinder()
        self._spoken: list[str] = []
        """Ids of the trajectories that it compares."""
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
        if trajectory.turns:  # without them, such as an outcome of a table, there are no words to compare
            self._spoken.append(trajectory.id)
            self._finder.add(task.id, work_words(task, trajectory))
        if evaluation is not None and evaluation.verdict != "missing":
            counts = self._families[trajectory.agent_version, task.family]
            counts[0] += evaluation.is_success
            counts[1] += 1

        if evaluation is not None and evaluation.verdict != "missing":
            unjudged = [name for name, value in evaluation.rewards.items() if value is None]
            self._count("judged", trajectory.id, f"no value for {', '.join(unjudged)}" if unjudged else "")
        if trajectory.rows:
            self._add_agreement(trajectory)

    def _add_agreement(self, trajectory: Trajectory) -> None:
        read = self._reader_of(trajectory.agent_version)
        if isinstance(read, str):
            self._unread[read] += 1
        else:
            self._count("agreement", trajectory.id, disagreement(trajectory, read))

    def add_time(self, trajectory_id: str, problem: str) -> None:
        """Counts a data point's time, with what is wrong with it."""
        self._count("clock", trajectory_id, problem)

    def report(self) -> ValidationReport:
        """The result, with the gates that compare data points."""
        self._add_twins("unique", self._finder.equal())
        self._add_twins("distinct", self._finder.similar())
        counts = {key: (successes, total) for key, (successes, total) in self._families.items()}
        self._points["plausible"] = len(counts)
        for anomaly in anomalies(counts):
            self._fail("plausible", anomaly.family, anomaly.problem)
        gates = (
            GateReport(
                gate,
                self._points[gate.name],
                self._failed[gate.name],
                tuple(self._examples[gate.name]),
                dict(self._unread) if gate.name == "agreement" else {},
            )
            for gate in GATES
        )
        return ValidationReport(len(self._ids), self._clean, tuple(gates))

    def _add_twins(self, name: str, twins: Iterator[Twin]) -> None:
        self._points[name] = len(self._spoken)
        for twin in twins:
            same = "the words" if twin.similarity == 1 else f"{twin.similarity:.0%} of the words"
            self._fail(name, self._spoken[twin.second], f"{same} of {self._spoken[twin.first]}, of another task")

    def _count(self, name: str, trajectory_id: str, problem: str) -> None:
        self._points[name] += 1
        if problem:
            self._fail(name, trajectory_id, problem)

    def _fail(self, name: str, record_id: str, problem: str) -> None:
        self._failed[name] += 1
        if len(self._examples[name]) < MOST_EXAMPLES:
            self._examples[name].append(Failure(record_id, problem))
