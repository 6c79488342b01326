"""``upturn pool lineage``."""

from typing import TYPE_CHECKING, Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath
from upturn.cli.output import emit
from upturn.pool import Pool
from upturn.pool.audit import lineage

if TYPE_CHECKING:
    from upturn.pool.audit import Branch


def show_lineage(
    record_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a trajectory, snapshot, run, agent version or release.")
    ],
    *,
    pool: PoolPath = POOL_PATH,
    limit: Annotated[int, typer.Option(min=1, help="Branches to show of one record.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show what a record was made from, and what of it: trajectories, snapshots, runs, versions, releases."""
    with Pool.open(pool, read_only=True) as opened:
        found = lineage(opened.engine, record_id, limit=limit)
    if as_json:
        details = {"causes": found.causes.to_fields(), "effects": found.effects.to_fields()}
        emit("pool lineage", [], details, as_json=True)
        return
    for title, branch in (("made from", found.causes), ("led to", found.effects)):
        typer.echo(f"{branch.node.kind} {branch.node.id} {title}:")
        lines = _lines(branch, "  ")
        typer.echo("\n".join(lines or ["  nothing"]))


def _lines(branch: "Branch", indent: str) -> list[str]:
    """Returns the branches below a record, one a line."""
    lines: list[str] = []
    for inner in branch.branches:
        repeated = " (see above)" if inner.is_repeated else ""
        lines += [f"{indent}{inner.node.kind} {inner.node.id}{repeated}", *_lines(inner, indent + "  ")]
    return lines + ([f"{indent}and {branch.omitted} more"] if branch.omitted else [])
