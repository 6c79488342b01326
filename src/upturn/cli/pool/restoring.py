"""``upturn pool restore`` and ``drill``: what makes a copy of a pool a backup."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath
from upturn.cli.output import emit, print_message
from upturn.pool import location_of
from upturn.pool.transfer import drill, restore_pool
from upturn.records import Result


def restore(
    backup: Annotated[Path, typer.Argument(help="File that `upturn pool copy` wrote.")],
    *,
    pool: PoolPath = POOL_PATH,
    as_json: AsJson = False,
) -> None:
    """Restore a pool from a backup: check every record and the audit log, then copy it to a new file or database.

    An existing pool is never overwritten.
    """
    tree = restore_pool(backup, location_of(pool))
    details = {"pool": str(pool), "root": tree.root.hex()}
    emit("pool restore", [Result("entries", float(tree.size))], details, as_json=as_json)


def try_restore(
    *,
    pool: PoolPath = POOL_PATH,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where the drill needs twice the pool's size. Default: /tmp.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Back the pool up, restore the backup in a temporary folder, and compare its rows and its audit log's root.

    Also while a gateway writes the pool. Exits with 1 if the restored pool differs.
    """
    with TemporaryDirectory(prefix="upturn-drill-", dir=folder) as place:
        done = drill(pool, Path(place))
    results = [
        Result("entries", float(done.tree.size)),
        Result("rows", float(sum(done.rows.values()))),
        Result("seconds", done.seconds, "s"),
        Result("problems", float(len(done.problems)), bar="<= 0", holds=not done.problems),
    ]
    details = {"root": done.tree.root.hex(), "rows_by_table": done.rows, "problems": list(done.problems[:20])}
    emit("pool drill", results, details, as_json=as_json)
    if done.problems:
        print_message("a backup of this pool would not restore it; `upturn audit verify` names what differs")
        raise typer.Exit(1)
