"""``upturn pool report``: the page of a pool."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AllTenants, AsJson, Families, PoolPath, Tenant
from upturn.cli.output import emit
from upturn.cli.pool.validation import token_readers
from upturn.interval import wilson_interval
from upturn.pool import (
    ALL_TENANTS,
    Coverage,
    Pool,
    PoolReader,
    Scope,
    Selection,
    counts,
    coverage,
    integrity_problems,
    ledger_problems,
    statistics,
)
from upturn.pool.quality import COVERAGE_BARS, GateReport, validate_quality
from upturn.pool.statistics import DAY, Change, call_cost, drift, history, usage_by_agent
from upturn.records import Result
from upturn.report import CoverageRow, Estimate
from upturn.report.pool import (
    ChangeRow,
    GateRow,
    Group,
    Outcome,
    PassRow,
    Period,
    PoolReport,
    UsageRow,
    Volume,
    write_pool_report,
)


def write_page(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    family: Families = None,
    out: Annotated[Path, typer.Option("--out", help="HTML file to write.")] = Path("pool.html"),
    as_json: AsJson = False,
) -> None:
    """Write one self-contained page: success by family, agent and time with intervals, quality, coverage, cost."""
    if not out.parent.is_dir():
        raise typer.BadParameter(f"--out {str(out)!r}: there is no folder {str(out.parent)!r}")
    scope = ALL_TENANTS if all_tenants else tenant
    selection = Selection(families=tuple(family or ()))
    with Pool.open(pool, read_only=True) as opened:
        content = collect(opened, str(pool), scope, selection)
    write_pool_report(content, out)
    results = [
        Result("trajectories", float(content.volume.trajectories)),
        *([] if content.success is None else [_result("success", content.success)]),
        *([] if content.clean is None else [_result("clean_share", content.clean)]),
    ]
    emit("pool report", results, {"file": str(out), "tenant": content.tenant}, as_json=as_json)


def collect(pool: PoolReader, name: str, scope: Scope, selection: Selection) -> PoolReport:
    """Returns what the page shows."""
    totals, stored, periods = (
        statistics(pool, tenant=scope, selection=selection),
        counts(pool, tenant=scope),
        history(pool, tenant=scope, selection=selection),
    )
    moved = drift(pool, tenant=scope, selection=selection)
    checked = validate_quality(pool, tenant=scope, selection=selection, reader_of=token_readers(pool))
    damage = integrity_problems(pool.engine)
    changes = [] if damage else [str(problem) for problem in ledger_problems(pool.engine)]
    return PoolReport(
        pool=name,
        tenant="all tenants" if scope is ALL_TENANTS else f"tenant {scope}",
        written_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        volume=Volume(
            trajectories=totals.trajectories,
            tasks=totals.tasks,
            turns=totals.turns,
            decisions=stored.decisions,
            feedback=stored.feedback,
            prompt_tokens=sum(period.prompt_tokens for period in periods),
            written_tokens=sum(period.written_tokens for period in periods),
            work_seconds=sum(period.work_seconds for period in periods),
            cost_usd=call_cost(pool, tenant=scope),
            with_tools=totals.with_tools,
            comparable=totals.comparable_groups,
            zero_variance=totals.zero_variance_groups,
        ),
        success=_success(totals.successes, totals.successes + totals.failures),
        clean=_success(checked.clean, checked.points),
        families=tuple(_group(row.family, row.trajectories, row.successes, row.missing) for row in totals.families),
        agents=tuple(
            _group(row.agent_version, row.trajectories, row.successes, row.missing) for row in totals.agents
        ),
        periods=tuple(
            Period(
                _label(period.start, period.seconds),
                _success(period.successes, period.trajectories - period.missing),
                period.trajectories,
            )
            for period in periods
        ),
        pass_k=tuple(PassRow(entry.k, entry.value, entry.groups) for entry in totals.pass_k),
        gates=tuple(_gate(item) for item in checked.gates),
        coverage=_coverage(coverage(pool, tenant=scope)),
        outcomes=tuple(Outcome(outcome, count) for outcome, count in totals.outcomes.items()),
        usage=tuple(UsageRow(*row) for row in usage_by_agent(pool, tenant=scope, selection=selection)),
        drift=() if moved is None else tuple(map(_change, moved.changes)),
        problems=(*damage, *changes),
    )


def _success(successes: int, judged: int) -> Estimate | None:
    if not judged:
        return None
    interval = wilson_interval(successes, judged)
    return Estimate(interval.mean, interval.low, interval.high, judged)


def _group(name: str, trajectories: int, successes: int, missing: int) -> Group:
    return Group(name, _success(successes, trajectories - missing), trajectories, missing)


def _gate(item: GateReport) -> GateRow:
    example = f"{item.examples[0].record_id}: {item.examples[0].problem}" if item.examples else ""
    unchecked = ", ".join(f"{count} not checked: {reason}" for reason, count in item.unchecked.items())
    gate = item.gate
    return GateRow(gate.name, gate.meaning, gate.is_required, item.points, item.failed, example, unchecked)


def _change(found: Change) -> ChangeRow:
    is_share = found.name in ("success", "missing") or found.name.startswith("family ")
    return ChangeRow(found.name, is_share, found.before, found.after, found.low, found.high, found.has_changed)


def _coverage(covered: Coverage) -> tuple[CoverageRow, ...]:
    return tuple(
        CoverageRow(name, share.part, share.whole, COVERAGE_BARS[name]) for name, share in covered._asdict().items()
    )


def _label(start: int, seconds: int) -> str:
    moment = datetime.fromtimestamp(start, UTC)
    return moment.strftime("%m-%d %H:00" if seconds < DAY else "%Y-%m-%d")


def _result(name: str, estimate: Estimate) -> Result:
    return Result(name, estimate.value, "share", estimate.low, estimate.high, estimate.n)
