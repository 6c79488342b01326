"""``upturn pool stats`` and ``show``: what the pool holds."""

from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AllTenants, AsJson, Before, Families, PoolPath, Since, Tenant, time_of
from upturn.cli.output import emit
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
