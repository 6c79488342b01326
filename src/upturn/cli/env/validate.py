"""``upturn env validate``: whether an environment keeps its contract and nothing but work pays, without a model."""

from collections.abc import Sequence
from typing import Annotated

import typer

from upturn.cli.output import emit, progress, say, show_table
from upturn.environments import EnvironmentKit, check_environment, resolve_kit
from upturn.environments.validation import PANEL, Check, FamilyReport, Plan, list_unchecked, validate_kit
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Result

CONTRACT_TASKS = 20
"""Tasks a split on which the contract is checked."""


def validate(
    name: Annotated[str, typer.Argument(help="A registered environment, or module:factory of your own.")],
    *,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of each family; half of them held out.")] = 40,
    family: Annotated[
        list[str] | None, typer.Option("--family", help="Only this family; repeat for several.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the tasks and the random actions.")] = 0,
    processes: Annotated[int, typer.Option(min=1, help="That families are shared out to; the figures stay.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Check the contract, and by family ceiling, floor, sameness, mutants, attacks. Exit code 1 on a breach."""
    kit = resolve_kit(name)
    families = _chosen(kit, family or ())
    reports: list[FamilyReport] = []
    details: dict[str, object] = {}
    try:
        check_environment(kit, CONTRACT_TASKS)
        contract = Result("contract", "kept", bar="kept", holds=True)
    except WorldError as exc:
        contract = Result("contract", "broken", bar="kept", holds=False)
        details["breach"] = str(exc)
        details["unchecked"] = ["everything else: mend the contract first"]
    else:
        with progress("families", len(families)) as ticker:
            plan = Plan(tasks, seed)
            for report in validate_kit(kit, plan, families=families, name=name, processes=processes):
                reports.append(report)
                ticker.advance()
        details |= {"unchecked": list_unchecked(kit, reports), "breaches": _breaches(reports)}
    results = [contract, *(_result(report, check) for report in reports for check in report.checks)]
    if not as_json and reports:
        _show(reports)
    shown = results if as_json else [result for result in results if result is contract or result.holds is False]
    emit("env validate", shown, details, as_json=as_json)
    if any(result.holds is False for result in results):
        say("the environment is not sound; see MISSED above")
        raise typer.Exit(1)


def _chosen(kit: EnvironmentKit, families: Sequence[str]) -> tuple[str, ...]:
    for family in families:
        if family not in kit.families:
            raise UnknownNameError(f"{kit.name} has no family {family!r}; it has: {', '.join(kit.families)}")
    return tuple(dict.fromkeys(families or kit.families))


def _result(report: FamilyReport, check: Check) -> Result:
    """With a 95 % interval where the figure is a share."""
    from upturn.deployment import clopper_pearson_interval

    name = f"{check.name} {report.family}"
    if check.value is None:
        return Result(name, "not applicable", n=0)
    bar = check.bar or None
    if not check.is_share:
        return Result(name, check.value, n=check.n, bar=bar, holds=check.holds)
    interval = clopper_pearson_interval(round(check.value * check.n), check.n)
    return Result(name, check.value, "", interval.low, interval.high, check.n, bar, check.holds)


def _breaches(reports: Sequence[FamilyReport]) -> list[str]:
    return [
        f"{check.name} {report.family}: {check.violation}"
        for report in reports
        for check in report.checks
        if check.holds is False
    ]


def _show(reports: Sequence[FamilyReport]) -> None:
    """Two tables for people: what holds of each family, and what each attack was paid."""
    names = dict.fromkeys(check.name for report in reports for check in report.checks)
    attacks = [name for name in names if name in PANEL or name.startswith("own ")]
    for title, chosen in (("checks", [name for name in names if name not in attacks]), ("attacks", attacks)):
        rows = []
        for report in reports:
            found = {check.name: check for check in report.checks}
            cells = [_cell(found[name]) if name in found else "" for name in chosen]
            rows.append([f"{report.family} (level {report.level})", *cells])
        show_table(f"upturn env validate: {title}", ("family", *chosen), rows)


def _cell(check: Check) -> str:
    """A share in percent, a score as it is, a dash where nothing could be tried; ``!`` marks a breach."""
    if check.value is None:
        return "–"
    shown = f"{100 * check.value:.3g} %" if check.is_share else f"{check.value:.3g}"
    return shown if check.holds is not False else f"{shown} !"
