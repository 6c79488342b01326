"""The pool: the durable store of tasks, decisions, trajectories, evaluations, feedback and other records.

It has the store with its reads and schema, import and export, preference data, quality gates, readiness,
statistics, coverage, snapshots, privacy findings and the audit log with its check for changed records (``audit``).
Start with ``store``, then ``reader`` and ``selection``.
"""

from upturn.pool.audit import ledger_problems
from upturn.pool.batch import RolloutKey
from upturn.pool.batches import Axis, Batch, BatchCriteria, BatchPoint, Priorities, freeze_batch, get_batch, redraw
from upturn.pool.collector import Collector
from upturn.pool.database import (
    POOL_ENDINGS,
    Location,
    PoolUrl,
    integrity_problems,
    location_of,
    names_pool,
    pool_exists,
)
from upturn.pool.exports import Choice, ExportFile, PoolExport, import_export
from upturn.pool.feedback import ingest_feedback
from upturn.pool.ingestion import (
    IngestOptions,
    LostWordsError,
    Received,
    Transcript,
    check_source,
    drop_quarantined,
    ingest,
    is_imported,
    quarantined_lines,
    receive_traces,
    transcript,
)
from upturn.pool.preference import correction_pairs, deployment_pairs, trajectory_ratings
from upturn.pool.quality import IMPORTED, Coverage, coverage, inspect, missing_reward, readiness
from upturn.pool.reader import Experience, PoolReader, Selected, States, current_state
from upturn.pool.retention import Pruned, plan_pruning, prune, prune_due
from upturn.pool.retrieval import (
    MakeEmbedder,
    PoolRecall,
    Question,
    Similar,
    SuccessIndex,
    by_words,
    last_point,
    recall_before,
    stored_by,
    task_question,
)
from upturn.pool.row import PoolRecord, ReadyRow, ready_row
from upturn.pool.selection import ALL_TENANTS, EVERYTHING, Scope, Selection
from upturn.pool.sharing import learnable_in
from upturn.pool.snapshot import experiences_in, find_snapshot, take_snapshot, take_snapshot_of
from upturn.pool.statistics import counts, statistics, tag_statistics
from upturn.pool.store import Pool, PoolSink
from upturn.pool.tagging import change_tags, tags_of, tasks_of
from upturn.pool.tags import MOST_TAGS, TAG_RULE, TagChange, imported_tag, is_tag
from upturn.pool.transfer import MovedTable, copy_pool, move_pool, rows_of
from upturn.pool.transition import Assignment, State, Transition, transitions, transitions_of

__all__ = [
    "ALL_TENANTS",
    "EVERYTHING",
    "IMPORTED",
    "MOST_TAGS",
    "POOL_ENDINGS",
    "TAG_RULE",
    "Assignment",
    "Axis",
    "Batch",
    "BatchCriteria",
    "BatchPoint",
    "Choice",
    "Collector",
    "Coverage",
    "Experience",
    "ExportFile",
    "IngestOptions",
    "Location",
    "LostWordsError",
    "MakeEmbedder",
    "MovedTable",
    "Pool",
    "PoolExport",
    "PoolReader",
    "PoolRecall",
    "PoolRecord",
    "PoolSink",
    "PoolUrl",
    "Priorities",
    "Pruned",
    "Question",
    "ReadyRow",
    "Received",
    "RolloutKey",
    "Scope",
    "Selected",
    "Selection",
    "Similar",
    "State",
    "States",
    "SuccessIndex",
    "TagChange",
    "Transcript",
    "Transition",
    "by_words",
    "change_tags",
    "check_source",
    "copy_pool",
    "correction_pairs",
    "counts",
    "coverage",
    "current_state",
    "deployment_pairs",
    "drop_quarantined",
    "experiences_in",
    "find_snapshot",
    "freeze_batch",
    "get_batch",
    "import_export",
    "imported_tag",
    "ingest",
    "ingest_feedback",
    "inspect",
    "integrity_problems",
    "is_imported",
    "is_tag",
    "last_point",
    "learnable_in",
    "ledger_problems",
    "location_of",
    "missing_reward",
    "move_pool",
    "names_pool",
    "plan_pruning",
    "pool_exists",
    "prune",
    "prune_due",
    "quarantined_lines",
    "readiness",
    "ready_row",
    "recall_before",
    "receive_traces",
    "redraw",
    "rows_of",
    "statistics",
    "stored_by",
    "tag_statistics",
    "tags_of",
    "take_snapshot",
    "take_snapshot_of",
    "task_question",
    "tasks_of",
    "trajectory_ratings",
    "transcript",
    "transitions",
    "transitions_of",
]
