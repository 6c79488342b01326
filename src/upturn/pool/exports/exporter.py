"""Export of a tenant's records in our own form, anonymised by default.

Anonymising replaces every privacy finding (``privacy`` lists what is covered) in texts of people, agents and
environments. A trajectory with a replacement also loses its token rows, and a call's content its tokens, because
they contain the same text. Ids and the names of agents, families and tenants stay, so that records still refer to
each other.

Agent versions and snapshots belong to the operator: an export has the versions that the tenant's records name, and
the versions that those came from, unless they name other tenants; and the snapshots of this tenant alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from pydantic_core import from_json, to_json
from sqlalchemy import select

from upturn import __version__
from upturn.pool import schema
from upturn.pool.exports.arrival import arrivals, count_arrivals
from upturn.pool.exports.borders import keep_borders
from upturn.pool.exports.choice import Choice
from upturn.pool.exports.form import ExportEnd, ExportHeader, LineDigest, end_line, header_line, record_line
from upturn.pool.privacy import redact_json
from upturn.pool.reader import PoolReader
from upturn.pool.selection import EVERYTHING
from upturn.records import (
    AgentVersion,
    Call,
    CallContent,
    Decision,
    Evaluation,
    Feedback,
    JsonValue,
    Snapshot,
    Task,
    Trajectory,
    fields_json,
    from_fields,
)

RecordT = TypeVar("RecordT")

_TEXT_FIELDS: Mapping[type[Any], tuple[str, ...]] = {
    Task: ("instruction", "context"),
    Decision: ("reason",),
    Call: ("error",),
    Trajectory: ("turns", "final_observation", "final_state", "error"),
    Evaluation: ("gates",),
    Feedback: ("comment",),
    AgentVersion: ("prompt", "parameters"),
}
"""Fields with text of people, agents or environments, by class of record."""

_JSON_FIELDS: Mapping[type[Any], tuple[str, ...]] = {CallContent: ("messages", "tools", "answer")}
"""Fields with such text as JSON, by class of record."""


def anonymise(record: RecordT) -> RecordT:
    """Returns the record without privacy findings; the same object if it has none."""
    fields = from_json(fields_json(record))
    clean = fields | {name: redact_json(fields[name]) for name in _TEXT_FIELDS.get(type(record), ())}
    clean |= {name: _redact_text(fields[name]) for name in _JSON_FIELDS.get(type(record), ())}
    if isinstance(record, Trajectory):
        for turn, original in zip(clean["turns"], fields["turns"], strict=True):
            turn["message"] = _redact_text(original["message"])
    if clean == fields:
        return record
    anonymous = from_fields(type(record), to_json(clean))
    if isinstance(anonymous, Trajectory):
        return replace(anonymous, rows=())
    return replace(anonymous, tokens="") if isinstance(anonymous, CallContent) else anonymous


def _redact_text(text: str) -> str:
    """Returns JSON text redacted value by value, as a finding may begin next to an escape."""
    if not text:
        return text
    value: JsonValue = from_json(text)
    clean = redact_json(value)
    return text if clean == value else to_json(clean).decode()


class PoolExport:
    """The export of one tenant's records; single use."""

    def __init__(
        self, pool: PoolReader, *, tenant: str, choice: Choice | None = None, is_anonymised: bool = True
    ) -> None:
        """``choice``: the trajectories; None = all records of the tenant.

        With a choice, only the records that refer to its trajectories are exported. Raises as
        ``Choice.trajectory_ids``.
        """
        self._pool, self._tenant, self._is_anonymised = pool, tenant, is_anonymised
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
        clean = anonymise(record)
        if isinstance(record, Trajectory) and isinstance(clean, Trajectory):
            return cast(RecordT, keep_borders(record, clean, anonymise))
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
            case Feedback(subject_kind="episode"):
                return record.subject_id in self._episodes
            case Feedback():
                return record.subject_id in self._decisions
            case Snapshot():
                return record.id == self._snapshot and record.tenants == (self._tenant,)
        return False
