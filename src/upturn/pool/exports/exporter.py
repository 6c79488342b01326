"""Export of a tenant's records in our own form, anonymised by default (``privacy``).

Agent versions and snapshots belong to the operator: an export has the versions that the tenant's records name, and
the versions that those came from, unless they name other tenants; and the snapshots of this tenant alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from sqlalchemy import select

from upturn import __version__
from upturn.pool import schema
from upturn.pool.exports.arrival import arrivals, count_arrivals
from upturn.pool.exports.choice import Choice
from upturn.pool.exports.episode_tokens import MarkedEpisodes
from upturn.pool.exports.form import ExportEnd, ExportHeader, LineDigest, end_line, header_line, record_line
from upturn.pool.ingestion import keep_borders
from upturn.pool.privacy import Replacer, anonymise, mask
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING
from upturn.records import (
    AgentVersion,
    Call,
    CallContent,
    Decision,
    Evaluation,
    Feedback,
    Snapshot,
    Task,
    Trajectory,
)

RecordT = TypeVar("RecordT")


class PoolExport:
    """The export of one tenant's records; single use."""

    def __init__(
        self,
        pool: PoolReader,
        *,
        tenant: str,
        choice: Choice | None = None,
        is_anonymised: bool = True,
        replacer: Replacer = mask,
    ) -> None:
        """``choice``: the trajectories; None = all records of the tenant. ``replacer``: what stands for findings.

        With a choice, only the records that refer to its trajectories are exported. Raises as
        ``Choice.trajectory_ids``.
        """
        self._pool, self._tenant, self._is_anonymised, self._replacer = pool, tenant, is_anonymised, replacer
        self._choice = choice or Choice()
        self._until = self._choice.until(pool)
        ids = self._choice.trajectory_ids(pool, tenant=tenant)
        self._related = None if ids is None else _Related(pool, tenant, ids, self._choice.snapshot)
        self._versions = _named_versions(pool, tenant)
        self.total = count_arrivals(pool, tenant=tenant, until=self._until)
        """Number of records that are read."""
        self.written: Counter[str] = Counter()
        """Number of written records by kind."""
        self.changed = 0
        """Number of written records in which anonymising replaced something."""
        self._marked = MarkedEpisodes()
        self.omitted: Counter[str] = Counter()
        """Number of records that are not written, by cause."""

    def lines(self, on_record: Callable[[], object] = lambda: None) -> Iterator[str]:
        """Yields the lines of the file with their line breaks; calls ``on_record`` for each record of ``total``."""
        digest = LineDigest()
        choice = self._choice
        criteria = "" if choice.selection == EVERYTHING else choice.selection.criteria
        header = ExportHeader(self._tenant, self._is_anonymised, __version__, criteria, choice.snapshot)
        yield (line := header_line(header) + "\n")
        digest.add(line.encode())
        for arrival in arrivals(self._pool, tenant=self._tenant, until=self._until):
            on_record()
            if not self._takes(arrival.record):
                continue
            exported = self._anonymous(arrival.record) if self._is_anonymised else arrival.record
            self.changed += exported is not arrival.record
            self.written[type(exported).__name__] += 1
            yield (line := record_line(exported, arrival.recorded_at) + "\n")
            digest.add(line.encode())
        yield end_line(ExportEnd(self.written.total(), digest.value)) + "\n"

    def _anonymous(self, record: RecordT) -> RecordT:
        clean = self._marked.without_tokens(record, anonymise(record, self._replacer))
        if isinstance(record, Trajectory) and isinstance(clean, Trajectory):
            kept = keep_borders(record, clean, self._replacer)
            return cast(RecordT, kept)
        return clean

    def _takes(self, record: object) -> bool:
        if isinstance(record, AgentVersion):
            return self._takes_version(record)
        if self._related is not None:
            return self._related.takes(record)
        if isinstance(record, Snapshot) and record.tenants != (self._tenant,):
            self.omitted["snapshots_of_other_tenants"] += self._tenant in record.tenants
            return False
        return True

    def _takes_version(self, version: AgentVersion) -> bool:
        if version.id not in self._versions:
            return False
        if version.tenants is not None and version.tenants != (self._tenant,):
            self.omitted["versions_of_other_tenants"] += 1
            return False
        return True


def _named_versions(pool: PoolReader, tenant: str) -> frozenset[str]:
    """Returns the ids of the agent versions that the tenant's records name, and of those that they came from."""
    columns = (schema.trajectories.c.agent_version, schema.decisions.c.chosen, schema.calls.c.agent_version)
    with pool.engine.connect() as connection:
        queries = [select(column).where(column.table.c.tenant == tenant).distinct() for column in columns]
        named = {name for query in queries for name in connection.execute(query).scalars()}
    versions = {version.id: version for version in pool.agent_versions()}
    waiting = list(named)
    while waiting:
        version = versions.get(waiting.pop())
        if version is not None and version.parent is not None and version.parent not in named:
            named.add(version.parent)
            waiting.append(version.parent)
    return frozenset(named)


class _Related:
    """Recognises the records that refer to chosen trajectories, in the order of their arrival."""

    def __init__(self, pool: PoolReader, tenant: str, ids: frozenset[str], snapshot: str | None) -> None:
        self._trajectories, self._snapshot, self._tenant = ids, snapshot, tenant
        self._tasks = {row.task_id for row in pool.selected(tenant=tenant) if row.trajectory_id in ids}
        self._episodes = {task.episode for task in pool.tasks(tenant=tenant, ids=sorted(self._tasks))} - {None}
        self._decisions: set[str] = set()
        """Ids of decisions and of the calls that they are for."""

    def takes(self, record: object) -> bool:
        match record:
            case Task():
                return record.id in self._tasks
            case Trajectory():
                return record.id in self._trajectories
            case Evaluation():
                return record.trajectory_id in self._trajectories
            case Decision() | Call():
                is_related = record.episode in self._episodes or (
                    isinstance(record, Decision) and record.task_id in self._tasks
                )
                if is_related:
                    self._decisions.add(record.id)
                return is_related
            case CallContent():
                return record.id in self._decisions
            case Feedback(subject_kind="trajectory"):
                return record.subject_id in self._trajectories
            case Feedback(subject_kind="task"):
                return record.subject_id in self._tasks
            case Feedback(subject_kind="episode"):
                return record.subject_id in self._episodes
            case Feedback():
                return record.subject_id in self._decisions
            case Snapshot():
                return record.id == self._snapshot and record.tenants == (self._tenant,)
        return False
