"""``upturn eval``: agents on frozen suites; judgements that are stored, made again."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.benchmark import run_suites
from upturn.cli.output import emit, say
from upturn.environments import registered_kits, resolve_kit
from upturn.loop.evaluation import Reverified, reverify
from upturn.pool import ALL_TENANTS, Pool, Selection
from upturn.records import Result

eval_app = typer.Typer(
    no_args_is_help=True, help="Judgements: of an agent on frozen suites, and stored ones again."
)

_LISTED = 20
"""Judgements that differ which are listed."""


@eval_app.callback()
def _eval() -> None:
    """Judgements: of an agent on frozen suites, and stored ones again."""


eval_app.command("run")(run_suites)


@eval_app.command("reverify")
def reverify_pool(
    *,
    pool: Annotated[Path, typer.Option("--pool", help="The pool's file.")] = Path("upturn.db"),
    tenant: Annotated[str, typer.Option("--tenant", help="Whose evidence.")] = "default",
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="The operator's view, over every tenant.")
    ] = False,
    environment: Annotated[
        list[str] | None,
        typer.Option("--environment", help="module:factory of an environment of your own; repeat for several."),
    ] = None,
    family: Annotated[
        list[str] | None, typer.Option("--family", help="Only this family; repeat for several.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Judge stored trajectories again and compare. Exit code 1 when a judgement differs, or none could be made.

    A verifier is pure, so a judgement that differs comes from a verifier that was changed without a new version.
    """
    kits = {kit.name: kit for kit in map(resolve_kit, (*registered_kits(), *(environment or ())))}
    scope = ALL_TENANTS if all_tenants else tenant
    counts: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    differing: list[Reverified] = []
    with Pool.open(pool, read_only=True) as opened:
        for each in reverify(opened, kits, tenant=scope, selection=Selection(families=tuple(family or ()))):
            counts[each.evaluator, each.found] += 1
            if each.found == "not_rerun":
                reasons[f"{each.evaluator or 'nobody'}: {each.words}"] += 1
            elif each.found == "differs" and len(differing) < _LISTED:
                differing.append(each)
    made = sum(count for (_, found), count in counts.items() if found != "not_rerun")
    details = {
        "tenant": "all" if all_tenants else tenant,
        "differing": [{"trajectory": each.trajectory_id, "what": each.words} for each in differing],
        "not_rerun": dict(sorted(reasons.items())),
    }
    emit("eval reverify", _results(counts), details, as_json=as_json)
    if not made:
        say("no judgement could be made again, so nothing was checked")
    if not made or differing:
        raise typer.Exit(1)


def _results(counts: Counter[tuple[str, str]]) -> list[Result]:
    """By evaluator: how many judgements are the same, and how many differ; then how many were not made again."""
    evaluators = sorted({evaluator for evaluator, found in counts if found != "not_rerun"})
    results = []
    for evaluator in evaluators:
        same, differs = counts[evaluator, "same"], counts[evaluator, "differs"]
        results.append(Result(f"same {evaluator}", float(same), n=same + differs))
        results.append(
            Result(f"differs {evaluator}", float(differs), n=same + differs, bar="<= 0", holds=not differs)
        )
    left = sum(count for (_, found), count in counts.items() if found == "not_rerun")
    return [*results, Result("not_rerun", float(left), n=counts.total())]
