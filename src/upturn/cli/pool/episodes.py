"""``upturn pool seal`` and ``tasks``: the gateway's episodes and stored tasks, prepared for training."""

from pathlib import Path
from time import time
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AllTenants, AsJson, PoolPath, Tenant
from upturn.cli.output import emit
from upturn.cli.pool.output_file import open_output
from upturn.errors import StoreError
from upturn.pool import (
    ALL_TENANTS,
    Pool,
)
from upturn.records import Result, fields_json


def seal(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    idle_hours: Annotated[
        float, typer.Option("--idle-hours", min=0, help="Hours since the last call of an episode.")
    ] = 24.0,
    as_json: AsJson = False,
) -> None:
    """Seal the gateway's episodes that had no call for some time, so that they can be trained on.

    Later calls of these episodes are refused. Seal in a copy of the pool (`upturn pool copy`) where they should not
    be; a pool that a running gateway writes is refused.
    """
    from upturn.loop.online import seal_idle

    scope = ALL_TENANTS if all_tenants else tenant
    with Pool.open(pool) as opened:
        done = seal_idle(opened, tenant=scope, before=time() - idle_hours * 3_600)
    results = [Result("sealed", float(done.sealed), "episodes"), Result("deleted", float(done.deleted), "episodes")]
    emit("pool seal", results, {"tenant": "all" if all_tenants else tenant}, as_json=as_json)


def tasks(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    out: Annotated[Path, typer.Option("--out", help="File to write, for tasks.file.")],
    environment: Annotated[
        str, typer.Option("--environment", help="Name or import path (module:kit) of the environment.")
    ] = "office",
    episodes: Annotated[
        bool, typer.Option("--episodes", help="Also the first messages of the gateway's sealed episodes, as tasks.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write stored tasks that the environment can begin again, for on-policy training (tasks.file).

    A quarter of them are held out. Exits with 1 if there are fewer than two.
    """
    from upturn.environments import resolve_kit
    from upturn.loop.trainers.traffic import find_tasks, split_tasks

    kit = resolve_kit(environment)
    with Pool.open(pool, read_only=True) as opened:
        replayable = find_tasks(opened, kit, tenant=tenant, has_episodes=episodes)
    if replayable.refusal:
        raise StoreError(replayable.refusal)
    chosen = split_tasks(replayable.tasks)
    with open_output(out, pool) as target:
        target.writelines(fields_json(task) + "\n" for task in chosen)
    count = sum(task.split == "heldout" for task in chosen)
    results = [
        Result("training", float(len(chosen) - count), "tasks"),
        Result("held_out", float(count), "tasks"),
        *(Result(name, float(number), "tasks") for name, number in replayable.left_out.items()),
    ]
    emit("pool tasks", results, {"file": str(out), "tenant": tenant, "environment": kit.name}, as_json=as_json)
