"""``upturn pool stats`` and ``show``: what the pool holds."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AllTenants, AsJson, Before, Families, PoolPath, Since, Tenant, time_of
from upturn.cli.output import emit, show_table
from upturn.cli.pool.tags import Tags, checked_tags
from upturn.errors import StoreError
from upturn.pool import (
    ALL_TENANTS,
    Experience,
    Pool,
    Selection,
    missing_reward,
    tags_of,
)
from upturn.pool.answers import statistics_answer
from upturn.pool.statistics import Drift
from upturn.pool.statistics import drift as find_drift
from upturn.records import Result


def stats(  # noqa: PLR0913  a command's parameters are its options
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    family: Families = None,
    tags: Tags = None,
    since: Since = None,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Show statistics: trajectories, outcomes, turns, tool use, pass^k, zero-variance groups and coverage; success
    by agent version, family and tag.

    --family, --tag, --since and --before do not restrict the numbers of records and the coverage.
    """
    selection = Selection(
        families=tuple(family or ()),
        since=time_of("--since", since),
        before=time_of("--before", before),
        tags=checked_tags(tags),
    )
    scope = ALL_TENANTS if all_tenants else tenant
    with Pool.open(pool, read_only=True) as opened:
        answer = statistics_answer(opened, tenant=scope, selection=selection)
    emit("pool stats", answer.results, answer.details, as_json=as_json)


def drift(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    family: Families = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split", help="Start of the later part (UTC). Default: the second half of the trajectories."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare an earlier with a later part: success, missing verdicts, turns, tokens, time, cost, mix of families.

    The intervals of all changes hold together with 95 %. Exits with 0 whether something changed or not.
    """
    scope = ALL_TENANTS if all_tenants else tenant
    moment = time_of("--split", split)
    with Pool.open(pool, read_only=True) as opened:
        found = find_drift(opened, tenant=scope, selection=Selection(families=tuple(family or ())), split=moment)
    if found is None:
        raise StoreError(
            "there is nothing to compare: one of the two parts has no trajectory; name another --split"
        )
    results = [
        Result(
            change.name, change.after - change.before, "change", change.low, change.high, sum(change.trajectories)
        )
        for change in found.changes
    ]
    changed = [change.name for change in found.changes if change.has_changed]
    parts = {"earlier": found.trajectories[0], "later": found.trajectories[1]}
    details: dict[str, object] = {
        "split": datetime.fromtimestamp(found.split, UTC).isoformat(),
        "trajectories": parts,
        "changed": changed,
    }
    if as_json:
        details["changes"] = [change._asdict() | {"has_changed": change.has_changed} for change in found.changes]
    emit("pool drift", results if as_json else [], details, as_json=as_json)  # the table has more
    if not as_json:
        _show_drift(found)


def _show_drift(found: Drift) -> None:
    rows = [
        (
            change.name,
            f"{change.before:.4g}",
            f"{change.after:.4g}",
            "too few tasks" if change.low is None else f"{change.low:+.4g} … {change.high:+.4g}",
            "changed" if change.has_changed else "",
        )
        for change in found.changes
    ]
    show_table("earlier and later", ("figure", "earlier", "later", "change, together 95 %", ""), rows)


def show(
    record_id: Annotated[str, typer.Argument(help="Id of a task, trajectory or decision.")],
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Show the trajectories of a task: outcome, verdict, gates, reward, and why a reward is missing."""
    scope = ALL_TENANTS if all_tenants else tenant
    with Pool.open(pool, read_only=True) as opened:
        ids = opened.trajectory_ids(record_id, tenant=scope)
        experiences = list(opened.experiences_of(ids, tenant=scope, has_tokens=False))
        tags = tags_of(opened, sorted({experience.task.id for experience in experiences}), tenant=scope)
    if not experiences:
        raise StoreError(
            f"{str(pool)!r} has no trajectory of {record_id!r} for tenant {tenant!r}; give the id of a task, "
            "trajectory or decision ('upturn pool validate' and 'upturn pool export' list them), or --all-tenants"
        )
    rewarded = sum(not missing_reward(experience) for experience in experiences)
    results = [Result("trajectories", float(len(experiences))), Result("rewarded", float(rewarded))]
    shown = {
        experience.trajectory.id: _described(experience, tags.get(experience.task.id, []))
        for experience in experiences
    }
    emit("pool show", results, {"trajectories": shown}, as_json=as_json)


def _described(experience: Experience, tags: list[str]) -> dict[str, object]:
    """One trajectory, for people and for --json."""
    task, trajectory, evaluation = experience
    problem = missing_reward(experience)
    described: dict[str, object] = {
        "task": task.id,
        "family": task.family,
        "agent": trajectory.agent_version,
        "outcome": trajectory.outcome,
        "turns": len(trajectory.turns),
        "reward": None if problem or evaluation is None else evaluation.score,
    }
    if tags:
        described["tags"] = tags
    if problem:
        described["no_reward"] = problem
    if evaluation is not None:
        described["evaluator"], described["verdict"] = evaluation.evaluator, evaluation.verdict
        described["components"] = dict(evaluation.rewards)
        described["failed_gates"] = {gate.name: gate.detail for gate in evaluation.gates if not gate.is_passed}
    return described
