"""``upturn eval``: evaluates agents on frozen suites; verifies stored trajectories again; audits rewards and
the use of tools."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AllTenants, AsJson, Families, PoolPath, Tenant
from upturn.cli.output import emit, print_message
from upturn.cli.suites import run_suites
from upturn.environments import registered_kits, resolve_kit
from upturn.loop.evaluation import Reverified, audit_training, audited_run, reverify, tool_adoption
from upturn.pool import ALL_TENANTS, Pool, Selection
from upturn.records import JsonValue, Result

eval_app = typer.Typer()
eval_app.command("run")(run_suites)

_MAX_DIFFERENCES_SHOWN = 20


@eval_app.command("audit")
def audit_rewards(
    run_dir: Annotated[Path, typer.Argument(help="Folder of a training run, runs/<id>/training/<name>.")],
    *,
    pool: Annotated[
        str | None, typer.Option("--pool", help="File or URL (postgresql://…) of the pool. Default: the run's.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Tenant whose records to use. Default: the run's.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which reward component moved while an agent was trained, and whether held-out quality rose as well.

    Compares the first third of the iterations with the last. Exits with 1 if the reward rose and the quality did
    not.
    """
    run = audited_run(run_dir)
    scope = tenant or run.tenant
    with Pool.open(pool or run.pool, read_only=True) as opened:
        audit = audit_training(run_dir, opened, tenant=scope)
    emit("eval audit", audit.results(), {"tenant": scope}, as_json=as_json)
    if audit.finding == "diverged":
        first = next(iter(audit.components), None)
        moved = "" if first is None else f"; the largest contribution has {first.name!r}"
        print_message(f"the reward rose and held-out quality did not{moved}")
        raise typer.Exit(1)


@eval_app.command("tools")
def measure_tools(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    family: Families = None,
    as_json: AsJson = False,
) -> None:
    """Show how often tools are called in stored trajectories, and whether their results were used.

    Shares of eligible episodes, precision and irrelevance need tasks whose context has gold_actions, the calls that
    solve them.
    """
    scope = ALL_TENANTS if all_tenants else tenant
    with Pool.open(pool, read_only=True) as opened:
        adoption = tool_adoption(opened, tenant=scope, selection=Selection(families=tuple(family or ())))
    counts = [Result("episodes", float(adoption.episodes)), Result("with known tools", float(adoption.known))]
    details: dict[str, JsonValue] = {"tenant": "all" if all_tenants else tenant}
    emit("eval tools", [*counts, *adoption.results()], details, as_json=as_json)


@eval_app.command("reverify")
def reverify_pool(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    environment: Annotated[
        list[str] | None,
        typer.Option("--environment", help="An environment of your own, as module:factory; repeatable."),
    ] = None,
    family: Families = None,
    as_json: AsJson = False,
) -> None:
    """Verify stored trajectories again and compare the evaluations.

    Verifiers are pure, so a difference means that a verifier changed without a new version. Exits with 1 if an
    evaluation differs, or none could be repeated.
    """
    kits = {kit.name: kit for kit in map(resolve_kit, (*registered_kits(), *(environment or ())))}
    scope = ALL_TENANTS if all_tenants else tenant
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    differing: list[Reverified] = []
    with Pool.open(pool, read_only=True) as opened:
        for item in reverify(opened, kits, tenant=scope, selection=Selection(families=tuple(family or ()))):
            counts[item.evaluator, item.outcome] += 1
            if item.outcome == "not_rerun":
                reasons[f"{item.evaluator or 'no evaluator'}: {item.detail}"] += 1
            elif item.outcome == "differs" and len(differing) < _MAX_DIFFERENCES_SHOWN:
                differing.append(item)
    repeated = sum(count for (_, outcome), count in counts.items() if outcome != "not_rerun")
    details = {
        "tenant": "all" if all_tenants else tenant,
        "differing": [{"trajectory": item.trajectory_id, "what": item.detail} for item in differing],
        "not_rerun": dict(sorted(reasons.items())),
    }
    emit("eval reverify", _results(counts), details, as_json=as_json)
    if not repeated:
        print_message("no evaluation could be repeated, so nothing was checked")
    if not repeated or differing:
        raise typer.Exit(1)


def _results(counts: Counter[tuple[str, str]]) -> list[Result]:
    """The number of equal and of different evaluations by evaluator, then of those that were not repeated."""
    results = []
    for evaluator in sorted({evaluator for evaluator, outcome in counts if outcome != "not_rerun"}):
        same, differs = counts[evaluator, "same"], counts[evaluator, "differs"]
        n = same + differs
        results.append(Result(f"same {evaluator}", float(same), n=n))
        results.append(Result(f"differs {evaluator}", float(differs), n=n, bar="<= 0", holds=not differs))
    not_rerun = sum(count for (_, outcome), count in counts.items() if outcome == "not_rerun")
    return [*results, Result("not_rerun", float(not_rerun), n=counts.total())]
