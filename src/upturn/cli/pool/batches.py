"""``upturn pool batch`` and ``snapshot``: data points by criteria, drawn by a seed, and drawn again."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Annotated, TypeVar, cast, get_args

import typer

from upturn.cli.options import (
    POOL_PATH,
    AsJson,
    Before,
    Families,
    PoolPath,
    Since,
    Tenant,
    Who,
    Why,
    time_of,
    user_name,
)
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
from upturn.pool.access import record_act
from upturn.pool.answers import Answer, Contents, batch_answer, point_lines
from upturn.records import AdminAct, JsonValue, Outcome, Result

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
    contents: Annotated[
        str, typer.Option("--contents", help="Of the lines in --out: none, anonymised or raw, with the records.")
    ] = "none",
    who: Who = "",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Draw data points by criteria. The same criteria, seed and bound give the same points at any later time.

    Held-out tasks of the environments are never drawn. Raw contents are an act that is stored. Exits with 1 if no
    point meets the criteria.
    """
    agents = agent or []
    shown = cast(Contents, _one_of("--contents", contents, get_args(Contents)))
    if shown != "none" and out is None:
        raise typer.BadParameter(f"--contents {shown} has no effect without --out; name a file")
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
        if shown == "raw":
            act = AdminAct(who or user_name(), "pool batch raw", tenant, time(), tenant, why)
            record_act(pool, act)
        _write_points(opened, drawn, out, shown)
    _show("pool batch", drawn, batch_answer(drawn, snapshot=snapshot), as_json=as_json)
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
        _write_points(opened, drawn, out)
    answer = batch_answer(drawn, snapshot=name)
    _show("pool snapshot", drawn, Answer(answer.results, {"is_same": True, **answer.details}), as_json=as_json)


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


def _show(command: str, drawn: Batch, answer: Answer, *, as_json: bool) -> None:
    shown = ("snapshot", "is_same", "tenant", "seed", "bound")
    details = {name: value for name, value in answer.details.items() if as_json or name in shown}
    emit(command, answer.results, details, as_json=as_json)
    if not as_json and drawn.points:
        counted = Counter(
            (point.family, f"{point.level}", point.agent_version, point.verdict) for point in drawn.points
        )
        rows = [(*key, f"{count}") for key, count in sorted(counted.items())]
        show_table("points", ("family", "level", "agent version", "verdict", "points"), rows)


def _write_points(opened: Pool, drawn: Batch, out: Path | None, contents: Contents = "none") -> None:
    if out is not None:
        with open_output(out, str(opened.location)) as target:
            target.writelines(point_lines(opened, drawn, contents))


def _checked(build: Callable[[], BuiltT]) -> BuiltT:
    try:
        return build()
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc


def _one_of(option: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise typer.BadParameter(f"{option} {value!r} is unknown; known: {', '.join(known)}")
    return value
