"""``upturn pool prune``."""

import os
from collections import defaultdict
from getpass import getuser
from pathlib import Path
from time import time
from typing import Annotated

import typer

from upturn.cli.options import CONFIG_PATH, AsJson, ConfigPath
from upturn.cli.output import emit
from upturn.errors import ConfigError
from upturn.pool import Pool, plan_pruning, prune
from upturn.records import Result


def prune_old(
    *,
    config: ConfigPath = CONFIG_PATH,
    pool: Annotated[
        str, typer.Option("--pool", help="File or URL of the pool. Default: that of the configuration.")
    ] = "",
    is_dry: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and delete nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest trajectories beyond the bounds of pool.retention, with their evaluations and tokens.

    Also while a gateway writes the pool. What a snapshot or a version was made from is kept, and the audit log
    keeps an entry and a tombstone of each deleted record.
    """
    from upturn.loop.trainers import load_full_config

    loaded = load_full_config(Path(config), os.environ)
    rules = loaded.pool.retention
    if not rules:
        raise ConfigError([f"{str(config)!r} has retention = [], which keeps all; give it a [[pool.retention]]"])
    now, deleted = time(), 0
    with Pool.open(pool or loaded.pool.path or "upturn.db", read_only=is_dry, beside=not is_dry) as opened:
        plan = plan_pruning(opened.engine, rules, now)
        if not is_dry:
            deleted = prune(opened, plan.outdated, who=getuser(), now=now)
    by_reason = defaultdict[str, list[int]](lambda: [0, 0])
    for item in plan.outdated:
        counted = by_reason[f"{item.tenant}: {item.why}"]
        counted[0] += 1
        counted[1] += item.size
    results = [
        Result("outdated", float(len(plan.outdated)), "trajectories"),
        Result("outdated_size", sum(item.size for item in plan.outdated) / 1e6, "MB"),
        Result("protected", float(plan.protected), "trajectories"),
        Result("deleted", float(deleted), "trajectories"),
    ]
    details = {
        "reasons": {why: {"trajectories": one[0], "bytes": one[1]} for why, one in sorted(by_reason.items())}
    }
    emit("pool prune", results, details, as_json=as_json, config_hash=loaded.config_hash)
