"""``upturn pool validate``: integrity, digests and quality gates."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import from_json

from upturn.cli.options import POOL_PATH, AllTenants, AsJson, Before, Families, PoolPath, Since, Tenant, time_of
from upturn.cli.output import emit, print_message, show_table
from upturn.errors import ConfigError, ModelError
from upturn.pool import (
    ALL_TENANTS,
    Pool,
    PoolReader,
    Selection,
    integrity_problems,
    ledger_problems,
)
from upturn.pool.answers import quality_answer
from upturn.pool.quality import GateReport, ReaderOf, TextReader, ValidationReport, no_tokenizers, validate_quality
from upturn.records import JsonValue, Result

_MAX_FAILURES_SHOWN = 20
_BLOCKS = 20


def validate(  # noqa: PLR0913  a command's parameters are its options
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    held_out: Annotated[
        Path | None,
        typer.Option(
            "--held-out",
            help="File of further instructions that must not be trained on: tasks as JSON lines, or one text a "
            "line; besides the pool's held-out tasks.",
        ),
    ] = None,
    gates_only: Annotated[
        bool, typer.Option("--gates", help="Only the quality gates, not the file, the digests and the tokenizers.")
    ] = False,
    family: Families = None,
    since: Since = None,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Check the file's integrity, its records against their digests, and every trajectory's quality gates.

    --family, --since and --before narrow what the gates are applied to. Exits with 1 if the file is damaged, or a
    record was changed or deleted after it was stored.
    """
    scope = ALL_TENANTS if all_tenants else tenant
    forbidden = [] if held_out is None else _instructions(held_out)
    selection = Selection(
        families=tuple(family or ()), since=time_of("--since", since), before=time_of("--before", before)
    )
    damage: list[str] = []
    changes: list[str] = []
    with Pool.open(pool, read_only=True) as opened:
        if not gates_only:
            damage = integrity_problems(opened.engine)
            changes = [] if damage else [str(problem) for problem in ledger_problems(opened.engine)]
        report = ValidationReport(0, 0, ())
        if not damage and not changes:
            readers = no_tokenizers if gates_only else token_readers(opened)  # --gates is what HTTP does
            report = validate_quality(
                opened, tenant=scope, selection=selection, held_out=forbidden, reader_of=readers
            )
    answer = quality_answer(report, tenant="all" if all_tenants else tenant)
    checks = [
        Result("integrity_problems", float(len(damage)), bar="<= 0", holds=not damage),
        Result("changed_records", float(len(changes)), bar="<= 0", holds=not changes),
    ]
    details: dict[str, JsonValue] = {"integrity": [*damage], "changes": [*changes[:_MAX_FAILURES_SHOWN]]}
    if gates_only:
        checks, details = [], {}
    details |= answer.details if as_json else {}
    emit("pool validate", [*checks, *answer.results], details, as_json=as_json)
    if not as_json:
        _show(report.gates)
    if damage:
        print_message("the file is damaged; restore a backup, or export what can still be read")
    if changes:
        print_message("records were changed or deleted after they were stored; restore a backup of the file")
    if damage or changes:
        raise typer.Exit(1)


def token_readers(pool: PoolReader) -> ReaderOf:
    """Returns how each stored agent version's output is read, or why it cannot be; loads no weights."""
    versions = {version.id: version for version in pool.agent_versions()}

    def reader_of(version_id: str) -> TextReader | str:
        from upturn.agents import template_options
        from upturn.models import load_renderer

        version = versions.get(version_id)
        if version is None:
            return "the agent version is not stored"
        if not version.has_local_model:
            return "the model runs elsewhere"
        try:
            renderer = load_renderer(version.model, options=template_options(version))
        except (ModelError, ConfigError):
            return f"no tokenizer of {version.model!r}"
        return lambda token_ids: renderer.read(token_ids).text

    return reader_of


def _instructions(path: Path) -> list[tuple[str, str]]:
    """Names and texts; raises BadParameter for a file that cannot be read or has none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise typer.BadParameter(f"--held-out {str(path)!r} cannot be read: {exc}") from exc
    instructions = [
        (f"line {number} of {path.name}", _instruction(line))
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not instructions:
        raise typer.BadParameter(f"--held-out {str(path)!r} has no instruction")
    return instructions


def _instruction(line: str) -> str:
    try:
        parsed = from_json(line)
    except ValueError:
        return line
    return str(parsed.get("instruction", line)) if isinstance(parsed, dict) else line


def _show(gates: Sequence[GateReport]) -> None:
    """A bar for each gate, and the first failure of each."""
    for title, is_required in (("a clean data point passes", True), ("to look at, not required", False)):
        rows = [
            (
                report.gate.name,
                _bar(report.share),
                _percent(report.share),
                f"{report.points - report.failed}/{report.points}",
            )
            for report in gates
            if report.gate.is_required == is_required and report.points
        ]
        if rows:
            show_table(title, ("gate", "", "share", "points"), rows)
    for report in gates:
        for reason, count in report.unchecked.items():
            whole = report.points + sum(report.unchecked.values())
            typer.echo(f"{report.gate.name}: {count} of {whole} with token rows not checked: {reason}")
    for report in gates:
        if report.examples:
            first, gate = report.examples[0], report.gate
            typer.echo(f"{gate.name} = {gate.meaning}. {report.failed} fail; {first.record_id}: {first.problem}")


def _bar(share: float) -> str:
    """Twenty blocks, of which the share is filled; never full or empty by rounding."""
    filled = round(share * _BLOCKS)
    filled = min(filled, _BLOCKS - 1) if share < 1 else filled
    filled = max(filled, 1) if share > 0 else filled
    return "#" * filled + "." * (_BLOCKS - filled)


def _percent(share: float) -> str:
    """With a digit more where it would read 100 % although some fail."""
    return f"{share:.1%}" if share == 1 or share < 0.9995 else f"{share:.4%}"
