"""``upturn pool batch`` and ``snapshot``: data points by criteria, drawn by a seed, and drawn again."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar, get_args

import typer

from upturn.cli.options import POOL_PATH, AsJson, Before, Families, PoolPath, Since, Tenant, time_of
from upturn.cli.output import emit, show_table
from upturn.cli.pool.exports import read_verdicts
from upturn.cli.pool.output_file import open_output
from upturn.cli.pool.tags import Tags, checked_tags
from upturn.errors import UnknownNameError
from upturn.pool import (
    Axis,
    Batch,
    BatchCriteria,
    Pool,
    Priorities,
    find_snapshot,
    freeze_batch,
    get_batch,
    redraw,
)
from upturn.records import JsonValue, Outcome, Result

BuiltT = TypeVar("BuiltT")


def batch(  # noqa: PLR0913  a command's parameters are its options
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    size: Annotated[int, typer.Option("--size", min=1, help="Number of data points.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Which of the points that meet the criteria.")] = 0,
    family: Families = None,
    level: Annotated[list[int] | None, typer.Option("--level", help="Only this level; repeatable.")] = None,
    agent: Annotated[
        list[str] | None, typer.Option("--agent", help="Only this agent or agent version; repeatable.")
    ] = None,
    verdict: Annotated[
        list[str] | None, typer.Option("--verdict", help="Only success, failure or missing; repeatable.")
    ] = None,
    environment: Annotated[
        list[str] | None, typer.Option("--environment", help="Only of this environment; repeatable.")
    ] = None,
    outcome: Annotated[
        list[str] | None, typer.Option("--outcome", help="Only that ended so, such as finished; repeatable.")
    ] = None,
    origin: Annotated[str | None, typer.Option("--origin", help="Only sampled or only rendered.")] = None,
    tags: Tags = None,
    min_score: Annotated[float | None, typer.Option("--min-score", help="Only with at least this score.")] = None,
    max_score: Annotated[float | None, typer.Option("--max-score", help="Only with at most this score.")] = None,
    since: Since = None,
    before: Before = None,
    clean: Annotated[bool, typer.Option("--clean", help="Only points that pass all quality gates.")] = False,
    balance: Annotated[
        list[str] | None,
        typer.Option("--balance", help="As many of each family, level, agent or agent_version; repeatable."),
    ] = None,
    per_task: Annotated[int | None, typer.Option("--per-task", min=1, help="At most so many of each task.")] = None,
    per_strategy: Annotated[
        int | None, typer.Option("--per-strategy", min=1, help="At most so many with the same actions, by family.")
    ] = None,
    prefer_success: Annotated[
        float, typer.Option("--prefer-success", help="Score 1 is exp(this) times as likely as score 0.")
    ] = 0.0,
    prefer_efficiency: Annotated[
        float, typer.Option("--prefer-efficiency", help="The same for the successes with the fewest tokens.")
    ] = 0.0,
    prefer_novelty: Annotated[
        float, typer.Option("--prefer-novelty", help="The same for tasks with few trajectories.")
    ] = 0.0,
    heldout: Annotated[float, typer.Option("--heldout", help="Share of the tasks to hold out, in [0, 1).")] = 0.0,
    bound: Annotated[
        int | None, typer.Option("--bound", min=0, help="Only what the pool had up to this sequence number.")
    ] = None,
    freeze: Annotated[bool, typer.Option("--freeze", help="Store it as a snapshot.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the points, one JSON object per line.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw data points by criteria. The same criteria, seed and bound give the same points at any later time.

    Held-out tasks of the environments are never drawn. Exits with 1 if no point meets the criteria.
    """
    agents = agent or []
    criteria = _checked(
        lambda: BatchCriteria(
            size=size,
            families=tuple(family or ()),
            levels=tuple(level or ()),
            agents=tuple(name for name in agents if "@" not in name),
            agent_versions=tuple(name for name in agents if "@" in name),
            origins=() if origin is None else (_one_of("--origin", origin, ("sampled", "rendered")),),  # type: ignore[arg-type]
            environments=tuple(environment or ()),
            outcomes=tuple(_one_of("--outcome", name, get_args(Outcome)) for name in outcome or ()),  # type: ignore[misc]
            verdicts=read_verdicts(verdict or ()),
            tags=checked_tags(tags),
            min_score=min_score,
            max_score=max_score,
            since=time_of("--since", since),
            before=time_of("--before", before),
            is_clean=clean,
            balance=tuple(_one_of("--balance", axis, get_args(Axis)) for axis in balance or ()),  # type: ignore[misc]
            max_per_task=per_task,
            max_per_strategy=per_strategy,
            priorities=Priorities(prefer_success, prefer_efficiency, prefer_novelty),
            heldout_share=heldout,
        )
    )
    with Pool.open(pool, read_only=not freeze, beside=freeze) as opened:
        drawn = get_batch(opened, criteria, tenant=tenant, seed=seed, bound=bound)
        snapshot = freeze_batch(opened, drawn).id if freeze and drawn.points else ""
    _write_points(drawn, out, pool)
    details: dict[str, JsonValue] = {"snapshot": snapshot} if snapshot else {}
    _show("pool batch", drawn, details, as_json=as_json)
    if not drawn.points:
        raise typer.Exit(1)


def snapshot(
    name: Annotated[str | None, typer.Argument(help="Id of a snapshot. Default: list all.")] = None,
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    out: Annotated[
        Path | None, typer.Option("--out", help="File for its points, one JSON object per line.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw the batch of a snapshot again and compare it, or list the tenant's snapshots.

    Exits with 1 if the points are not the same, because some were erased.
    """
    with Pool.open(pool, read_only=True) as opened:
        if name is None:
            _list_snapshots(opened, tenant, as_json=as_json)
            return
        if find_snapshot(opened, name).tenants != (tenant,):
            raise UnknownNameError(
                f"snapshot {name!r} is not of tenant {tenant!r} alone; name its tenant with --tenant"
            )
        drawn = redraw(opened, name)
    _write_points(drawn, out, pool)
    _show("pool snapshot", drawn, {"snapshot": name, "is_same": True}, as_json=as_json)


def _list_snapshots(pool: Pool, tenant: str, *, as_json: bool) -> None:
    stored = [snapshot for snapshot in pool.snapshots() if tenant in snapshot.tenants]
    results = [Result("snapshots", float(len(stored)))]
    details: list[JsonValue] = [
        {
            "id": snapshot.id,
            "points": len(snapshot.trajectory_ids),
            "tenants": list(snapshot.tenants),
            "criteria": json.loads(snapshot.criteria),
        }
        for snapshot in stored
    ]
    emit("pool snapshot", results, {"snapshots": details} if as_json else {}, as_json=as_json)
    if not as_json and stored:
        rows = [(item.id, f"{len(item.trajectory_ids)}", ", ".join(item.tenants)) for item in stored]
        show_table("snapshots", ("id", "points", "tenants"), rows)


def _show(command: str, drawn: Batch, details: dict[str, JsonValue], *, as_json: bool) -> None:
    points = drawn.points
    held_out = sum(point.is_held_out for point in points)
    results = [
        Result("points", float(len(points)), n=drawn.available),
        Result("available", float(drawn.available), "points"),
        Result("tasks", float(len({point.task_id for point in points}))),
        Result("held_out", float(held_out), "points"),
    ]
    details |= {"tenant": drawn.draw.tenant, "seed": drawn.draw.seed, "bound": drawn.draw.bound}
    if as_json:
        details["criteria"] = json.loads(drawn.draw.criteria.text)
        details["families"] = dict(sorted(Counter(point.family for point in points).items()))
        details["agent_versions"] = dict(sorted(Counter(point.agent_version for point in points).items()))
        details["verdicts"] = dict(sorted(Counter(point.verdict for point in points).items()))
    emit(command, results, details, as_json=as_json)
    if not as_json and points:
        counted = Counter((point.family, f"{point.level}", point.agent_version, point.verdict) for point in points)
        rows = [(*key, f"{count}") for key, count in sorted(counted.items())]
        show_table("points", ("family", "level", "agent version", "verdict", "points"), rows)


def _write_points(drawn: Batch, out: Path | None, pool: str) -> None:
    if out is not None:
        with open_output(out, pool) as target:
            target.writelines(json.dumps(point._asdict()) + "\n" for point in drawn.points)


def _checked(build: Callable[[], BuiltT]) -> BuiltT:
    try:
        return build()
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc


def _one_of(option: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise typer.BadParameter(f"{option} {value!r} is unknown; known: {', '.join(known)}")
    return value
