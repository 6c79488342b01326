"""``upturn pool export`` and ``copy``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer

from upturn.cli.options import POOL_PATH, AsJson, Families, PoolPath, Tenant, Who, Why
from upturn.cli.output import emit, print_message, progress
from upturn.cli.pool.output_file import open_output
from upturn.cli.pool.privacy import chosen_replacer, record_raw_export
from upturn.pool import (
    ALL_TENANTS,
    Choice,
    Pool,
    PoolExport,
    Selection,
    copy_pool,
    counts,
)
from upturn.records import EvaluationVerdict, Result


def read_verdicts(names: Sequence[str]) -> tuple[EvaluationVerdict, ...]:
    """The named verdicts; raises BadParameter for an unknown one."""
    known: tuple[EvaluationVerdict, ...] = get_args(EvaluationVerdict)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"--verdict {name!r} is unknown; known: {', '.join(known)}")
    return tuple(verdict for verdict in known if verdict in names)


def copy(
    *,
    pool: PoolPath = POOL_PATH,
    out: Annotated[Path, typer.Option("--out", help="File of the copy; it must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Copy a pool, also while a gateway writes it, for example to train on the copy."""
    copy_pool(pool, out)
    with Pool.open(out, read_only=True) as opened:
        stored = counts(opened, tenant=ALL_TENANTS)
    emit("pool copy", [], {"file": str(out), "records": stored._asdict()}, as_json=as_json)


def export_records(  # noqa: PLR0913  a command's parameters are its options
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    out: Annotated[Path | None, typer.Option("--out", help="File to write. Default: standard output.")] = None,
    family: Families = None,
    agent: Annotated[list[str] | None, typer.Option("--agent", help="Only this agent version; repeatable.")] = None,
    verdict: Annotated[
        list[str] | None,
        typer.Option("--verdict", help="Only success, failure or missing; repeatable."),
    ] = None,
    min_score: Annotated[float | None, typer.Option("--min-score", help="Only with at least this score.")] = None,
    limit_per_family: Annotated[
        int | None, typer.Option("--limit-per-family", min=1, help="Only the latest ones of each family.")
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", help="Only the trajectories of this snapshot, as they were.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not anonymise; stored as an act.")] = False,
    pseudonyms: Annotated[
        bool,
        typer.Option("--pseudonyms", help="Pseudonyms with the tenant's key instead of masks such as <EMAIL>."),
    ] = False,
    who: Who = "",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Export a tenant's records as JSON lines that `upturn pool import` reads, anonymised unless --raw is set.

    Without a selection all records of the tenant are exported, otherwise those that refer to the selected
    trajectories.
    """
    if raw and pseudonyms:
        raise typer.BadParameter("--pseudonyms has no effect with --raw; use one of them")
    if as_json and out is None:
        raise typer.BadParameter("--json prints one object on standard output; set --out for the records")
    selection = Selection(
        families=tuple(family or ()),
        agent_versions=tuple(agent or ()),
        verdicts=read_verdicts(verdict or ()),
        min_score=min_score,
        limit_per_family=limit_per_family,
    )
    choice = Choice(selection, snapshot)
    with Pool.open(pool, read_only=True) as opened:
        if raw:
            record_raw_export(pool, tenant=tenant, who=who, why=why)
        replacer = chosen_replacer(pool, tenant=tenant, has_pseudonyms=pseudonyms, who=who)
        export = PoolExport(opened, tenant=tenant, choice=choice, is_anonymised=not raw, replacer=replacer)
        with open_output(out, pool) as target, progress("records", export.total) as ticker:
            target.writelines(export.lines(ticker.advance))
    written = export.written.total()
    if out is None:
        print_message(f"{written} records written, {export.changed} of them anonymised")
        return
    results = [Result("records", float(written)), Result("anonymised", float(export.changed), "records")]
    details = {
        "file": str(out),
        "tenant": tenant,
        "is_raw": raw,
        "has_pseudonyms": pseudonyms,
        "by_kind": dict(sorted(export.written.items())),
        "omitted": dict(sorted(export.omitted.items())),
    }
    emit("pool export", results, details, as_json=as_json)
