"""``upturn pool``: what the evidence looks like, whether it is sound, whether training may begin, and getting it
out.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, TextIO

import typer

from upturn.cli.output import emit, say
from upturn.config import ReadinessConfig
from upturn.pool import (
    ALL_TENANTS,
    POOL_ENDINGS,
    Coverage,
    Pool,
    Scope,
    Selection,
    counts,
    coverage,
    export,
    inspect,
    integrity_problems,
    readiness,
    statistics,
)
from upturn.records import Result

pool_app = typer.Typer(no_args_is_help=True, help="Evidence: stats, ready, validate, export.")

PoolPath = Annotated[Path, typer.Option("--pool", help="The pool's file.")]
Tenant = Annotated[str, typer.Option("--tenant", help="Whose evidence.")]
AllTenants = Annotated[bool, typer.Option("--all-tenants", help="The operator's view, over every tenant.")]
Family = Annotated[list[str] | None, typer.Option("--family", help="Only this family; repeat for several.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]

_DEFAULT_POOL = Path("upturn.db")
_LISTED = 20
"""Data points with failed gates that are listed."""


@pool_app.command("stats")
def stats(
    *,
    pool: PoolPath = _DEFAULT_POOL,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    family: Family = None,
    as_json: AsJson = False,
) -> None:
    """Trajectories, tasks, turns, how they ended, tool adoption, pass^k, zero-variance groups and coverage."""
    scope = _scope(tenant, all_tenants)
    with Pool.open(pool, read_only=True) as opened:
        found = statistics(opened, tenant=scope, selection=Selection(families=tuple(family or ())))
        stored = counts(opened, tenant=scope)
        covered = coverage(opened, tenant=scope)
    details = {
        "tenant": str(scope if isinstance(scope, str) else "all"),
        "records": stored._asdict(),
        "families": [entry._asdict() for entry in found.families],
        "success_histograms": found.histograms,
    }
    emit("pool stats", [*found.results(), *_coverage_results(covered)], details, as_json=as_json)


@pool_app.command("ready")
def ready(
    *,
    pool: PoolPath = _DEFAULT_POOL,
    tenant: Tenant = "default",
    config: Annotated[
        Path | None, typer.Option("--config", help="upturn.toml with thresholds; default: those for production.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the prerequisites of training. Exit code 1 when one does not hold."""
    from upturn.loop.trainers import load_full_config

    loaded = None if config is None else load_full_config(config, os.environ)
    thresholds = ReadinessConfig() if loaded is None else loaded.readiness
    with Pool.open(pool, read_only=True) as opened:
        found = readiness(opened, thresholds, tenant=tenant)
    advice = {check.name: check.advice for check in found.checks if not check.holds}
    details = {"tenant": tenant, "advice": advice, "failed_gates": found.survey.failed_gates}
    config_hash = "" if loaded is None else loaded.config_hash
    emit("pool ready", found.results(), details, as_json=as_json, config_hash=config_hash)
    if not found.is_ready:
        say(f"not ready: {len(advice)} of {len(found.checks)} prerequisites do not hold")
        raise typer.Exit(1)


@pool_app.command("validate")
def validate(
    *,
    pool: PoolPath = _DEFAULT_POOL,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Check the file's integrity and every data point's quality gates. Exit code 1 when the file is damaged."""
    failed: Counter[str] = Counter()
    listed: list[dict[str, str]] = []
    points = clean = 0
    with Pool.open(pool, read_only=True) as opened:
        damage = integrity_problems(opened.engine)
        experiences = () if damage else opened.experiences(tenant=_scope(tenant, all_tenants))
        for experience in experiences:
            inspected = inspect(experience)
            bad = [gate for gate in inspected.gates if not gate.is_passed]
            points += 1
            clean += not bad
            failed.update(gate.name for gate in bad)
            if bad and len(listed) < _LISTED:
                listed.append({"trajectory": inspected.trajectory_id, bad[0].name: bad[0].detail})
    results = [
        Result("integrity_problems", float(len(damage)), bar="<= 0", holds=not damage),
        Result("points", float(points)),
        Result("clean_points", float(clean)),
        *([Result("clean_share", clean / points, n=points)] if points else []),
    ]
    details = {"failed_gates": dict(sorted(failed.items())), "first_failures": listed, "integrity": damage}
    emit("pool validate", results, details, as_json=as_json)
    if damage:
        say("the file is damaged; restore a copy of it, or export what can still be read")
        raise typer.Exit(1)


@pool_app.command("export")
def export_records(
    *,
    pool: PoolPath = _DEFAULT_POOL,
    tenant: Tenant = "default",
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default: standard output.")] = None,
    family: Family = None,
    raw: Annotated[bool, typer.Option("--raw", help="As it is, without anonymising.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a tenant's records as JSON lines, anonymised unless --raw is given."""
    if as_json and out is None:
        raise typer.BadParameter("--json prints one object on standard output; give --out for the records")
    selection = Selection(families=tuple(family or ()))
    lines = changed = 0
    with Pool.open(pool, read_only=True) as opened, _writing(out, pool) as target:
        for exported in export(opened, tenant=tenant, selection=selection, is_anonymised=not raw):
            target.write(exported.line + "\n")
            lines += 1
            changed += exported.is_changed
    if out is None:
        say(f"{lines} records written, {changed} of them anonymised")
        return
    results = [Result("records", float(lines)), Result("anonymised", float(changed), "records")]
    emit("pool export", results, {"file": str(out), "tenant": tenant, "is_raw": raw}, as_json=as_json)


@contextmanager
def _writing(path: Path | None, pool: Path) -> Iterator[TextIO]:
    """The file to write to, there when the block ends without error; standard output where ``path`` is None.

    Raises BadParameter for a file that cannot be written, or that belongs to the pool.
    """
    if path is None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # records are, whatever the terminal can show
        yield sys.stdout
        return
    path = Path(os.path.realpath(path))  # unlike Path.resolve, it bears links in a circle
    places = (pool.absolute(), Path(os.path.realpath(pool)))
    own = {where.with_name(where.name + ending) for where in places for ending in _OWN}
    if path in own:
        raise typer.BadParameter(f"--out {str(path)!r} belongs to the pool, which would be lost; name another file")
    # What is there stays until the new one is whole; devices and pipes are written as they are.
    is_replaced = not path.exists() or path.is_file()
    target = path.with_name(f"{path.name}.{os.getpid()}.part") if is_replaced else path
    try:
        file = target.open("w", encoding="utf-8")
    except OSError as exc:
        raise typer.BadParameter(f"--out {str(path)!r} cannot be written: {exc.strerror}") from exc
    try:
        with file:
            yield file
        if is_replaced:
            target.replace(path)
    except OSError as exc:
        exc.filename = exc.filename or str(path)  # a full disk does not say which
        raise
    finally:
        if is_replaced:
            target.unlink(missing_ok=True)


_OWN = ("", *POOL_ENDINGS)


def _scope(tenant: str, all_tenants: bool) -> Scope:
    return ALL_TENANTS if all_tenants else tenant


def _coverage_results(covered: Coverage) -> list[Result]:
    return [
        Result(f"coverage_{name}", share.value, n=share.whole)
        for name, share in covered._asdict().items()
        if share.whole
    ]
