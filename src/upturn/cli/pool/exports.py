"""``upturn pool export`` and ``copy``."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import time
from typing import Annotated, NamedTuple, get_args

import typer

from upturn.cli.options import POOL_PATH, AsJson, Families, PoolPath, Tenant, Who, Why
from upturn.cli.output import emit, print_message, progress
from upturn.cli.pool.output_file import open_bytes, open_output
from upturn.cli.pool.privacy import chosen_replacer, record_raw_export
from upturn.cli.pool.tags import Tags, checked_tags
from upturn.pool import (
    ALL_TENANTS,
    Choice,
    Pool,
    PoolExport,
    Selection,
    copy_pool,
    counts,
)
from upturn.pool.exports import FORMATS, LOGS, ChatSource, LogFormat, TrainingExport
from upturn.records import EvaluationVerdict, Result, Tool


def read_verdicts(names: Sequence[str]) -> tuple[EvaluationVerdict, ...]:
    """The named verdicts; raises BadParameter for an unknown one."""
    known: tuple[EvaluationVerdict, ...] = get_args(EvaluationVerdict)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"--verdict {name!r} is unknown; known: {', '.join(known)}")
    return tuple(verdict for verdict in known if verdict in names)


class Written(NamedTuple):
    """What an export wrote."""

    message: str
    results: list[Result]
    details: dict[str, object]


def write_records(export: PoolExport, out: Path | None, pool: str) -> Written:
    """Writes the file of records."""
    with open_output(out, pool) as target, progress("records", export.total) as ticker:
        target.writelines(export.lines(ticker.advance))
    count = export.written.total()
    return Written(
        f"{count} records written, {export.changed} of them anonymised",
        [Result("records", float(count)), Result("anonymised", float(export.changed), "records")],
        {"by_kind": dict(sorted(export.written.items())), "omitted": dict(sorted(export.omitted.items()))},
    )


def write_rows(export: TrainingExport, out: Path | None, pool: str) -> Written:
    """Writes the file of rows for a trainer."""
    if out is None:
        export.write(sys.stdout.buffer, ".jsonl")
    else:
        with open_bytes(out, pool) as target:
            export.write(target, out.suffix if out.suffix == ".parquet" else ".jsonl")
    return _counted("rows", export.rows, export.omitted)


def write_log(log: LogFormat, source: ChatSource, out: Path | None, pool: str) -> Written:
    """Writes a log for a viewer; raises BadParameter for a name that the viewer does not recognise."""
    if out is None or out.suffix != log.ending:
        raise typer.BadParameter(f"{log.summary} is a file named *{log.ending}; name it with --out")
    total = source.choice.size(source.pool, tenant=source.tenant)
    with open_bytes(out, pool) as target, progress("trajectories", total) as ticker:
        count = log.write(source, target, time(), ticker.advance)
    return _counted("trajectories", count, source.omitted)


def _counted(what: str, count: int, causes: Mapping[str, int]) -> Written:
    omitted = {cause: number for cause, number in sorted(causes.items()) if number}
    listed = ", ".join(f"{number} {cause}" for cause, number in omitted.items()) or "nothing"
    return Written(f"{count} {what} written; omitted: {listed}", [Result(what, float(count))], {"omitted": omitted})


def tools_by_name(environment: str) -> Sequence[Tool]:
    """The tools of a registered environment; empty for any other, as the code of others is not run here."""
    from upturn.environments import registered_kits, resolve_kit, tools_of

    return tools_of(resolve_kit(environment)) if environment in registered_kits() else ()


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
    form: Annotated[
        str,
        typer.Option("--as", help=f"records (what `upturn pool import` reads), {', '.join([*FORMATS, *LOGS])}."),
    ] = "records",
    family: Families = None,
    agent: Annotated[list[str] | None, typer.Option("--agent", help="Only this agent version; repeatable.")] = None,
    verdict: Annotated[
        list[str] | None, typer.Option("--verdict", help="Only success, failure or missing; repeatable.")
    ] = None,
    tags: Tags = None,
    min_score: Annotated[float | None, typer.Option("--min-score", help="Only with at least this score.")] = None,
    limit_per_family: Annotated[
        int | None, typer.Option("--limit-per-family", min=1, help="Only the latest ones of each family.")
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option("--snapshot", help="Only the trajectories of this snapshot, as they were.")
    ] = None,
    heldout: Annotated[
        bool, typer.Option("--heldout", help="Held-out tasks instead of the others, for grpo and verl.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Do not anonymise; stored as an act.")] = False,
    pseudonyms: Annotated[
        bool,
        typer.Option("--pseudonyms", help="Pseudonyms with the tenant's key instead of masks such as <EMAIL>."),
    ] = False,
    who: Who = "",
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Export a tenant's records, or its trajectories for trainers and viewers; anonymised unless --raw is set.

    Without a selection all records of the tenant are exported, otherwise those that refer to the selected
    trajectories. Rows are written as JSON lines, or as Parquet to a file named *.parquet.
    """
    if raw and pseudonyms:
        raise typer.BadParameter("--pseudonyms has no effect with --raw; use one of them")
    if as_json and out is None:
        raise typer.BadParameter("--json prints one object on standard output; set --out for the records")
    selection = Selection(
        families=tuple(family or ()),
        agent_versions=tuple(agent or ()),
        verdicts=read_verdicts(verdict or ()),
        tags=checked_tags(tags),
        min_score=min_score,
        limit_per_family=limit_per_family,
    )
    forms = ("records", *FORMATS, *LOGS)
    if form not in forms:
        raise typer.BadParameter(f"--as {form!r} is unknown; known: {', '.join(forms)}")
    choice = Choice(selection, snapshot)
    with Pool.open(pool, read_only=True) as opened:
        if heldout and form in ("records", *LOGS):
            raise typer.BadParameter(f"--heldout has no effect with --as {form}, which has the tasks of all splits")
        if raw:
            record_raw_export(pool, tenant=tenant, who=who, why=why)
        replacer = chosen_replacer(pool, tenant=tenant, has_pseudonyms=pseudonyms, who=who)
        if form == "records":
            export = PoolExport(opened, tenant=tenant, choice=choice, is_anonymised=not raw, replacer=replacer)
            written = write_records(export, out, pool)
        else:
            source = ChatSource(
                opened,
                tenant=tenant,
                choice=choice,
                tools_of=tools_by_name,
                is_anonymised=not raw,
                replacer=replacer,
            )
            if form in LOGS:
                written = write_log(LOGS[form], source, out, pool)
            else:
                rows = TrainingExport(source, form, split="heldout" if heldout else "train")
                written = write_rows(rows, out, pool)
    if out is None:
        print_message(written.message)
        return
    described = {"file": str(out), "tenant": tenant, "as": form, "is_raw": raw, "has_pseudonyms": pseudonyms}
    emit("pool export", written.results, described | written.details, as_json=as_json)
