"""``upturn pool move``."""

from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath
from upturn.cli.output import emit, print_message, progress
from upturn.pool import location_of, move_pool, rows_of
from upturn.records import Result


def move(
    *,
    pool: PoolPath = POOL_PATH,
    to: Annotated[str, typer.Option("--to", help="New file, or URL of an empty database (postgresql://…).")],
    as_json: AsJson = False,
) -> None:
    """Move a pool to another database, and check there that everything arrived.

    Compares all rows, digests and chains. The old pool stays as it is. Run it again if it was interrupted.
    """
    source, target = location_of(pool), location_of(to)
    with progress("rows", rows_of(source)) as ticker:
        tables = move_pool(source, target, ticker.advance)
    results = [Result("rows", float(sum(table.rows for table in tables)))]
    details = {
        "from": str(source),
        "to": str(target),
        "tables": {table.name: {"rows": table.rows, "sha256": table.digest} for table in tables},
    }
    emit("pool move", results, details, as_json=as_json)
    print_message(
        f"all rows of {source} are in {target}, with equal digests and chains; name the new place in pool.path or "
        "--pool, and keep the old one until you are sure"
    )
