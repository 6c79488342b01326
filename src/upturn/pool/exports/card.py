"""The card of a snapshot: what it contains and how to get it again, as Markdown.

All figures are counted from the data points when the card is written. The id of a snapshot is a digest of its
manifest (criteria, tenants, ids of trajectories and evaluations), which is computed anew; the digest of the content
covers the records themselves.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import func, select

from upturn import __version__
from upturn.pool import schema
from upturn.pool.privacy import has_findings
from upturn.pool.quality import inspect
from upturn.pool.reader import Experience, PoolReader
from upturn.pool.row import digest
from upturn.pool.snapshot import experiences_in, find_snapshot, manifest_digest, taken_at, trajectories_in
from upturn.records import Snapshot, fields_json

_OUTCOMES = ("success", "failure", "missing")


@dataclass(slots=True)
class Breakdown:
    """Data points of one family or agent version."""

    tasks: set[str] = field(default_factory=set)
    verdicts: Counter[str] = field(default_factory=Counter)

    @property
    def points(self) -> int:
        """Number of trajectories."""
        return self.verdicts.total()


@dataclass(slots=True)
class SnapshotCard:
    """What a card says."""

    snapshot: Snapshot
    tenants: tuple[str, ...]
    """Whose data points are counted."""
    recorded: tuple[float, float] | None
    """When the first and the last trajectory were stored (UTC, seconds since 1970); None = it has none."""
    taken: float
    """When the snapshot was stored."""
    is_manifest_valid: bool
    """Whether the id matches what is stored."""
    trained: tuple[str, ...]
    """Ids of the agent versions that were trained on it."""
    points: int = 0
    turns: int = 0
    written_tokens: int = 0
    private: int = 0
    """Number of data points with privacy findings."""
    clean: int = 0
    """Number of data points that pass all gates."""
    content_digest: str = ""
    families: dict[str, Breakdown] = field(default_factory=lambda: defaultdict(Breakdown))
    agents: dict[str, Breakdown] = field(default_factory=lambda: defaultdict(Breakdown))
    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Number of data points by verdict, outcome, origin, environment and split."""
    passed: Counter[str] = field(default_factory=Counter)
    """Number of data points that pass, by gate."""

    def add(self, experience: Experience) -> None:
        """Counts a data point."""
        task, trajectory, evaluation = experience
        verdict = "missing" if evaluation is None else evaluation.verdict
        for breakdown in (self.families[task.family], self.agents[trajectory.agent_version]):
            breakdown.tasks.add(task.id)
            breakdown.verdicts[verdict] += 1
        for name, value in (
            ("verdict", verdict),
            ("outcome", trajectory.outcome),
            ("origin", trajectory.origin),
            ("environment", task.environment),
            ("split", task.split),
        ):
            self.counts[name][value] += 1
        inspection = inspect(experience)
        self.passed.update({gate.name: int(gate.is_passed) for gate in inspection.gates})
        self.clean += inspection.is_clean
        self.private += has_findings(task, trajectory)
        self.points += 1
        self.turns += len(trajectory.turns)
        self.written_tokens += trajectory.usage.written_tokens
        texts = [fields_json(record) for record in experience if record is not None]
        self.content_digest = digest(self.content_digest, *texts)


def snapshot_card(
    pool: PoolReader, snapshot_id: str, *, tenant: str | None, on_point: Callable[[], object] = lambda: None
) -> SnapshotCard:
    """Returns the card of a tenant's part of a snapshot; ``tenant`` None = of the whole, for the operator.

    ``on_point`` is called for each data point. Raises UnknownNameError as ``experiences_in``.
    """
    snapshot = find_snapshot(pool, snapshot_id)
    tenants = snapshot.tenants if tenant is None else (tenant,)
    ids = [name for owner in tenants for name in trajectories_in(pool, snapshot_id, tenant=owner)]
    card = SnapshotCard(
        snapshot,
        tenants,
        _recorded(pool, ids),
        _taken(pool, snapshot_id),
        manifest_digest(pool, snapshot) == snapshot.id,
        tuple(version.id for version in pool.agent_versions() if version.snapshot == snapshot_id),
    )
    for owner in tenants:
        for experience in experiences_in(pool, snapshot_id, tenant=owner):
            card.add(experience)
            on_point()
    return card


def _recorded(pool: PoolReader, ids: Sequence[str]) -> tuple[float, float] | None:
    table = schema.trajectories
    bounds: list[float] = []
    with pool.engine.connect() as connection:
        for start in range(0, len(ids), 500):
            page = select(func.min(table.c.recorded_at), func.max(table.c.recorded_at))
            bounds += connection.execute(page.where(table.c.id.in_(ids[start : start + 500]))).one()
    return (min(bounds), max(bounds)) if bounds else None


def _taken(pool: PoolReader, snapshot_id: str) -> float:
    table = schema.snapshots
    with pool.engine.connect() as connection:
        query = select(table.c.recorded_at).where(table.c.sequence == taken_at(pool, snapshot_id))
        return float(connection.execute(query).scalar_one())


def write_card(card: SnapshotCard, *, licence: str = "") -> str:
    """Returns the card as Markdown; ``licence``: of the data, empty = not stated."""
    lines = [
        *_overview(card, licence),
        "## Personal data",
        "",
        f"{card.private} of {card.points} trajectories have personal data or secrets that the patterns find; there "
        "may be more. The snapshot itself is not anonymised: its exports are, unless they are raw.",
        "",
        *_breakdown("Families", "family", card.families),
        *_breakdown("Agents", "agent version", card.agents),
        "## Outcomes",
        "",
        f"Verdicts: {_listed(card.counts['verdict'])}.",
        f"How the trajectories ended: {_listed(card.counts['outcome'])}.",
        "",
        "## Quality",
        "",
        f"{card.clean} of {card.points} trajectories ({_share(card.clean, card.points)}) pass all gates.",
        "",
        "| gate | passed | share |",
        "|---|---:|---:|",
        *(f"| {gate} | {count} | {_share(count, card.points)} |" for gate, count in card.passed.items()),
        "",
        *_origin(card),
        f"Written by Upturn {__version__}.",
        "",
    ]
    return "\n".join(lines)


def _overview(card: SnapshotCard, licence: str) -> list[str]:
    others = len(card.snapshot.tenants) - len(card.tenants)
    part = f", a part of a snapshot that has {others} other tenants too" if others else ""
    span = "no trajectories" if card.recorded is None else f"{_time(card.recorded[0])} to {_time(card.recorded[1])}"
    return [
        f"# Snapshot {card.snapshot.id[:12]}",
        "",
        f"Trajectories: {card.points}, tasks: {_tasks(card.families)}{part}.",
        "",
        "| | |",
        "|---|---|",
        f"| tenants | {', '.join(map(_cell, card.tenants))} |",
        f"| recorded | {span} |",
        f"| taken | {_time(card.taken)} |",
        f"| turns | {card.turns} |",
        f"| written tokens | {card.written_tokens} |",
        *(f"| {name} | {_listed(card.counts[name])} |" for name in ("environment", "origin", "split")),
        f"| licence | {_cell(licence) or 'not stated'} |",
        f"| trained on it | {', '.join(map(_cell, card.trained)) or 'no agent version'} |",
        "",
    ]


def _origin(card: SnapshotCard) -> list[str]:
    snapshot = card.snapshot
    validity = "matches what is stored" if card.is_manifest_valid else "**does not match what is stored**"
    return [
        "## How to get it again",
        "",
        "The criteria, with which the trajectories were selected from the pool of that time:",
        "",
        "```json",
        json.dumps(_set_criteria(snapshot.criteria), indent=2, ensure_ascii=False),
        "```",
        "",
        "The snapshot reads the same from its pool, whatever was stored later:",
        "",
        "```console",
        f"upturn pool export --snapshot {snapshot.id} --tenant {card.tenants[0]} --out snapshot.jsonl",
        "```",
        "",
        "| digest | of | SHA-256 |",
        "|---|---|---|",
        f"| manifest: the snapshot's id, which {validity} | criteria, tenants, ids of trajectories and evaluations "
        f"| `{snapshot.id}` |",
        f"| content | the records of the trajectories above | `{card.content_digest or 'none'}` |",
        "",
    ]


def _breakdown(title: str, name: str, rows: Mapping[str, Breakdown]) -> list[str]:
    return [
        f"## {title}",
        "",
        f"| {name} | tasks | trajectories | {' | '.join(_OUTCOMES)} | success rate |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {_cell(key)} | {len(row.tasks)} | {row.points} | "
            f"{' | '.join(str(row.verdicts[verdict]) for verdict in _OUTCOMES)} | "
            f"{_share(row.verdicts['success'], row.points)} |"
            for key, row in sorted(rows.items())
        ),
        "",
    ]


def _tasks(families: Mapping[str, Breakdown]) -> int:
    return len(set[str]().union(*(row.tasks for row in families.values())))


def _set_criteria(criteria: str) -> object:
    """Returns the criteria without those that restrict nothing."""
    try:
        parsed = json.loads(criteria)
    except ValueError:  # those of another program
        return criteria
    if not isinstance(parsed, dict):
        return parsed
    return {name: value for name, value in parsed.items() if value not in (None, [], {}, "")}


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_cell(name)} {count}" for name, count in sorted(counts.items())) or "none"


def _share(count: int, total: int) -> str:
    return f"{count / total:.1%}" if total else "-"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _cell(text: str) -> str:
    """Returns the text for a cell of a table: on one line, without the cell's border."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
