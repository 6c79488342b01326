"""The pool's tables, with portable types only: text, integers, floats and bytes; JSON is text.

Every record is stored as JSON in ``fields``, with a few further columns for queries. A table of records also has
``digest`` (to compare a second write of the id with the first), ``sequence`` (the order of arrival, one counter for
the whole pool) and ``recorded_at`` (UTC, seconds since 1970). Tables of a tenant's records have ``tenant``; agent
versions, releases, runs, snapshots and limits of agents belong to the operator.

``HEAD`` is the revision that this code reads and writes; ``migrations`` upgrades older pools.
"""

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.schema import SchemaItem

HEAD = "0015"
"""The Alembic revision of this module's tables."""

metadata = MetaData()


def _ledger(name: str, *items: SchemaItem, covered: tuple[str, ...] = ()) -> Table:
    """Returns a table of records: id, the columns in ``items``, and the columns of all tables of records.

    ``covered``: columns that are read by sequence number without their rows.
    """
    table = Table(
        name,
        metadata,
        Column("id", Text, primary_key=True),
        *items,
        Column("fields", Text, nullable=False),
        Column("digest", Text, nullable=False),
        Column("sequence", BigInteger, nullable=False),
        Column("recorded_at", Float, nullable=False),
    )
    Index(f"ix_{name}_sequence", table.c.sequence, *(table.c[column] for column in covered))
    return table


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text, nullable=nullable)


def _integer(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


tasks = _ledger("tasks", _text("tenant"), _text("family"), _text("environment"), _text("split"), _integer("level"))
Index("ix_tasks_tenant_family", tasks.c.tenant, tasks.c.family)

decisions = _ledger(
    "decisions",
    _text("tenant"),
    _text("task_id"),
    _text("family"),
    _text("chosen"),
    Column("propensity", Float, nullable=False),
    _text("episode", nullable=True),
    _text("release_id", nullable=True),
    _text("arm", nullable=True),
)
Index("ix_decisions_task", decisions.c.task_id, decisions.c.chosen)
Index("ix_decisions_tenant", decisions.c.tenant, decisions.c.sequence)

trajectories = _ledger(
    "trajectories",
    _text("tenant"),
    _text("task_id"),
    _text("agent_version"),
    _text("origin"),
    _text("outcome"),
    _integer("turn_count"),
    _integer("tool_turns"),
    _integer("prompt_tokens"),
    _integer("written_tokens"),
    Column("seconds", Float, nullable=False),
    _text("turns"),
    Column("tokens", LargeBinary, nullable=True),
    covered=("id", "task_id"),
)
"""``tokens`` has the token rows as ``tokens`` packs them; NULL = there are none."""
Index("ix_trajectories_task", trajectories.c.task_id, trajectories.c.agent_version)
Index("ix_trajectories_tenant", trajectories.c.tenant, trajectories.c.sequence)
Index("ix_trajectories_agent", trajectories.c.agent_version)

token_blobs = Table(
    "token_blobs",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("digest", LargeBinary, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
"""Ids of prompts that the token rows of several trajectories share; ``digest`` is the hash of ``data``."""

evaluations = _ledger(
    "evaluations",
    _text("tenant"),
    _text("task_id"),
    _text("trajectory_id"),
    _text("evaluator"),
    _text("verdict"),
    Column("score", Float, nullable=True),
    covered=("id",),
)
Index("ix_evaluations_trajectory", evaluations.c.trajectory_id, evaluations.c.sequence)

calls = _ledger(
    "calls",
    _text("tenant"),
    _text("episode"),
    _text("agent_version"),
    _text("status"),
    _text("key"),
    _text("prefix"),
    Column("cost_usd", Float, nullable=True),
)
Index("ix_calls_tenant_episode", calls.c.tenant, calls.c.episode, calls.c.sequence)
Index("ix_calls_tenant_prefix", calls.c.tenant, calls.c.prefix)

call_contents = _ledger("call_contents", _text("tenant"))
"""What was said in calls. Its rows are deleted after the retention time, so the audit log has none of them."""
Index("ix_call_contents_recorded", call_contents.c.recorded_at)

submissions = Table(
    "submissions",
    metadata,
    Column("task_id", Text, primary_key=True),
    _text("tenant"),
    _text("key"),
    _text("state"),
    _text("reason"),
    Column("updated_at", Float, nullable=False),
)
"""State of the tasks that clients submitted: queued, running, done, failed or cancelled."""
Index("ix_submissions_state", submissions.c.state, submissions.c.updated_at)

strata = Table(
    "strata",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    _text("tenant"),
    _text("family"),
    _text("environment"),
    _text("split"),
    _integer("level"),
    _text("agent"),
    _text("agent_version"),
    _text("origin"),
    _text("outcome"),
)
"""What data points have in common; ``id`` is a hash of the other columns."""

points = Table(
    "points",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("until", BigInteger, nullable=True),
    Column("trajectory", BigInteger, nullable=False),
    Column("packed", LargeBinary, nullable=False),
)
"""Data points for batches and statistics, as ``points`` packs them; ``trajectory`` is a sequence number. A point is
valid from ``sequence`` until ``until``, when a later evaluation came (NULL = now)."""
Index("ix_points_trajectory", points.c.trajectory)

feedback = _ledger(
    "feedback",
    _text("tenant"),
    _text("subject_kind"),
    _text("subject_id"),
    _text("metric"),
    Column("value", Float, nullable=False),
)
Index("ix_feedback_subject", feedback.c.subject_kind, feedback.c.subject_id)
Index("ix_feedback_metric", feedback.c.metric, feedback.c.sequence)

agent_versions = _ledger("agent_versions", _text("agent"), _text("kind"))
releases = _ledger("releases", _text("agent"), _text("candidate"), _text("state"))
runs = _ledger("runs", _text("command"), _text("state"))
snapshots = _ledger("snapshots")
agent_limits = _ledger("agent_limits")

router_states = Table(
    "router_states",
    metadata,
    Column("id", Text, primary_key=True),
    _text("state"),
    Column("sequence", BigInteger, nullable=False),
    Column("recorded_at", Float, nullable=False),
)
"""What routing policies have learned, up to and including the record with ``sequence``. Rows can be deleted: the
ledger has all that they are computed from."""

history = Table(
    "history",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    _text("kind"),
    _text("record_id"),
    _text("fields"),
    Column("recorded_at", Float, nullable=False),
)
"""All states of releases, runs and agents' limits; ``kind`` is the table's name."""
Index("ix_history_record", history.c.kind, history.c.record_id)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    _text("tenant"),
    _text("fields"),
)
"""The gateway's API keys in their current state; the earlier states are in ``admin_acts``."""
Index("ix_api_keys_tenant", api_keys.c.tenant)

pseudonym_keys = Table(
    "pseudonym_keys",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("key", LargeBinary, nullable=False),
    Column("recorded_at", Float, nullable=False),
)
"""The secret key of each tenant's pseudonyms. A deleted key cannot be computed from anything."""

admin_acts = Table(
    "admin_acts",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    _text("kind"),
    _text("record_id"),
    _text("tenant"),
    _text("act"),
    _text("fields"),
    Column("recorded_at", Float, nullable=False),
)
"""Acts of operators, with the state of what they changed in ``fields`` (empty = nothing of ``kind`` changed).

Unlike records, keys and acts are written next to the process that has the pool open for writing, so ``sequence``
is a counter of this table alone.
"""
Index("ix_admin_acts_record", admin_acts.c.kind, admin_acts.c.record_id)

audit_entries = Table(
    "audit_entries",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    _text("kind"),
    _text("record_id"),
    _text("tenant"),
    _text("digest"),
    Column("sequence", BigInteger, nullable=False),
    Column("recorded_at", Float, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)
"""The audit log (``audit``): one entry for each stored record, state and act, in the order of their storage.

``position`` counts from 0 without gaps; ``kind`` is the name of the record's table; ``hash`` is that of the leaf.
Entries stay when a record is erased, so they hold nothing of its content but a digest.
"""
Index("ix_audit_entries_sequence", audit_entries.c.sequence)

audit_nodes = Table(
    "audit_nodes",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
)
"""Inner nodes of the audit log's tree, of every eighth level (``merkle.TILE_LEVELS``)."""

audit_head = Table(
    "audit_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False),
    Column("peaks", LargeBinary, nullable=False),
)
"""One row: the number of entries of the audit log, and the hashes that its root follows from (``Frontier``)."""

erasures = Table(
    "erasures",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("record_id", Text, primary_key=True),
    Column("act", BigInteger, primary_key=True, autoincrement=False),
    _text("remains"),
)
"""Records that were erased on purpose, by the name of their table (``access.erasure``).

``act`` is the sequence number of the operator's act, which says who, when and why; the last one of a record counts.
``remains`` is the digest of what is left of the record; empty = its row is deleted.
"""
Index("ix_erasures_act", erasures.c.act)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    _text("holder"),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", Float, nullable=False),
)
"""What one process does alone (``leases``); ``token`` grows with every new holder."""

rollouts = Table(
    "rollouts",
    metadata,
    Column("run", Text, primary_key=True),
    Column("iteration", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    _text("trajectory_id"),
    _text("evaluation_id"),
)
"""The trajectories of each iteration of a training run."""
Index("ix_rollouts_trajectory", rollouts.c.trajectory_id)

imports = Table(
    "imports",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    _text("path"),
    _integer("lines"),
    _integer("accepted"),
    _integer("quarantined"),
    Column("recorded_at", Float, nullable=False),
    Column("is_complete", Integer, nullable=False, server_default="1"),
    Column("state", Text, nullable=False, server_default=""),
)
"""Imported files; ``source`` is a hash of their bytes and options. ``lines``, ``accepted`` and ``quarantined``
count what was read so far; ``state`` is the importer's JSON, with which it continues an incomplete file."""

quarantine = Table(
    "quarantine",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("line", Integer, primary_key=True, autoincrement=False),
    _text("reason"),
    Column("recorded_at", Float, nullable=False),
    _text("text", nullable=True),
)
"""Lines (or array items, from 1) of imported files that were not stored, with the reason and, where it is short
enough, the text."""

places = Table(
    "places",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("content", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    _text("before", nullable=True),
    _text("after", nullable=True),
    _text("source"),
)
"""Imported conversations without an id: the hash of each, its number among equal ones, what stands before and after
it in its file, and the import that has it last (``ingestion.place``)."""

embeddings = Table(
    "embeddings",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("vector", LargeBinary, nullable=False),
)
"""Embeddings of instructions by a server's model (``retrieval.stored``); ``vector`` has length 1, as 32-bit floats,
little-endian. Rows can be deleted: the server is asked again."""

LEDGER = (
    tasks,
    decisions,
    calls,
    trajectories,
    evaluations,
    feedback,
    agent_versions,
    releases,
    runs,
    snapshots,
    agent_limits,
)
STATES = (releases, runs, agent_limits)
"""Tables whose records change; all of their states are in ``history``."""
