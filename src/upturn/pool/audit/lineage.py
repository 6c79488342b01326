"""What a record was made from, and what of it: trajectory → snapshot and run → agent version → release.

A snapshot comes from its trajectories, a run from its rollouts, a version from its snapshot, its run and its
parent, and a release from its candidate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection, Engine, Table, func, select

from upturn.errors import UnknownNameError
from upturn.pool import schema
from upturn.records import AgentVersion, Release, Snapshot, from_fields


class Node(NamedTuple):
    """A record in a lineage."""

    kind: str
    """task, trajectory, snapshot, run, version or release."""
    id: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A record with its causes or its effects."""

    node: Node
    branches: tuple["Branch", ...] = ()
    omitted: int = 0
    """Further causes or effects that are not listed."""
    is_repeated: bool = False
    """True = the record has its branches at an earlier place."""

    def to_fields(self) -> dict[str, Any]:
        """Returns the tree as JSON."""
        inner = [branch.to_fields() for branch in self.branches]
        named = {"kind": self.node.kind, "id": self.node.id, "repeated": self.is_repeated}
        return {**named, "branches": inner, "omitted": self.omitted}


class Lineage(NamedTuple):
    """Both directions from one record."""

    causes: Branch
    effects: Branch


_Step: TypeAlias = Callable[[Node], Sequence[Node]]


def lineage(engine: Engine, record_id: str, *, limit: int = 20) -> Lineage:
    """Returns the lineage of a trajectory, snapshot, run, agent version or release of any tenant.

    ``limit``: branches listed of one record; the number of the others is ``omitted``. Raises UnknownNameError for
    an id of none of them.
    """
    with engine.connect() as connection:
        records = _Records(connection)
        node = records.find(record_id)
        return Lineage(_grow(node, records.causes, limit), _grow(node, records.effects, limit))


def _grow(node: Node, step: _Step, limit: int, seen: set[Node] | None = None) -> Branch:
    """Returns the tree below a record, in which each record has its branches once."""
    seen = set() if seen is None else seen
    if node in seen:
        return Branch(node, is_repeated=True)
    seen.add(node)
    following = step(node)
    listed = tuple(_grow(other, step, limit, seen) for other in following[:limit])
    return Branch(node, listed, max(0, len(following) - limit))


class _Records:
    """Reads of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @cached_property
    def versions(self) -> list[AgentVersion]:
        return [from_fields(AgentVersion, fields) for fields in self._column(schema.agent_versions, "fields")]

    @cached_property
    def releases(self) -> list[Release]:
        return [from_fields(Release, fields) for fields in self._column(schema.releases, "fields")]

    def find(self, record_id: str) -> Node:
        """Returns the record with the id; of a trajectory first."""
        for kind, table in (
            ("trajectory", schema.trajectories),
            ("snapshot", schema.snapshots),
            ("version", schema.agent_versions),
            ("release", schema.releases),
            ("run", schema.runs),
        ):
            if self._column(table, "id", record_id):
                return Node(kind, record_id)
        if self._column(schema.rollouts, "run", record_id):  # a run of training inside another command
            return Node("run", record_id)
        raise UnknownNameError(
            f"no trajectory, snapshot, run, agent version or release has the id {record_id!r}; check the id"
        )

    def causes(self, node: Node) -> list[Node]:
        """Returns what a record was made from."""
        kind, record_id = node
        if kind == "trajectory":
            return [Node("task", task) for task in self._column(schema.trajectories, "task_id", record_id)]
        if kind == "snapshot":
            found = self._column(schema.snapshots, "fields", record_id)
            return [
                Node("trajectory", one) for fields in found for one in from_fields(Snapshot, fields).trajectory_ids
            ]
        if kind == "run":
            return [Node("trajectory", one) for one in self._rollouts(record_id)]
        if kind == "version":
            return [cause for version in self.versions if version.id == record_id for cause in _origin(version)]
        if kind == "release":
            return [Node("version", release.candidate) for release in self.releases if release.id == record_id]
        return []

    def effects(self, node: Node) -> list[Node]:
        """Returns what was made from a record."""
        kind, record_id = node
        if kind == "trajectory":
            return [*self._snapshots_with(record_id), *self._runs_with(record_id)]
        found = [Node("version", version.id) for version in self.versions if node in _origin(version)]
        if kind == "version":
            found += [Node("release", release.id) for release in self.releases if release.candidate == record_id]
        return found

    def _snapshots_with(self, trajectory_id: str) -> list[Node]:
        table = schema.snapshots
        query = select(table.c.fields).where(table.c.fields.contains(trajectory_id, autoescape=True))
        stored = [from_fields(Snapshot, fields) for fields in self._connection.execute(query).scalars()]
        return [Node("snapshot", one.id) for one in stored if trajectory_id in one.trajectory_ids]

    def _runs_with(self, trajectory_id: str) -> list[Node]:
        """Returns the runs whose rollouts have the trajectory; ``run/part`` is a part of a run."""
        table = schema.rollouts
        query = select(table.c.run).where(table.c.trajectory_id == trajectory_id).distinct().order_by(table.c.run)
        known = {version.run for version in self.versions} | set(self._column(schema.runs, "id"))
        names = list(self._connection.execute(query).scalars())
        whole = [name.partition("/")[0] for name in names]
        return [Node("run", run if run in known else name) for run, name in zip(whole, names, strict=True)]

    def _rollouts(self, run: str) -> list[str]:
        """Returns the trajectories of a run's iterations; ``run/part`` are those of its parts."""
        table = schema.rollouts
        is_part = func.substr(table.c.run, 1, len(run) + 1) == f"{run}/"
        query = select(table.c.trajectory_id).where((table.c.run == run) | is_part)
        return list(
            self._connection.execute(query.order_by(table.c.run, table.c.iteration, table.c.position)).scalars()
        )

    def _column(self, table: Table, column: str, record_id: str | None = None) -> list[Any]:
        key = table.c.run if table is schema.rollouts else table.c.id
        query = select(table.c[column]).order_by(key)
        if record_id is not None:
            query = query.where(key == record_id).limit(1)
        return list(self._connection.execute(query).scalars())


def _origin(version: AgentVersion) -> list[Node]:
    """Returns snapshot, run and parent of a version, as far as it has them."""
    named = (("snapshot", version.snapshot), ("run", version.run), ("version", version.parent))
    return [Node(kind, record_id) for kind, record_id in named if record_id is not None]
