"""``upturn env validate``: checks an environment's contract and its rewards, without a model."""

from collections.abc import Sequence
from typing import Annotated

import typer

from upturn.cli.options import AsJson, Families
from upturn.cli.output import emit, print_message, progress, show_table
from upturn.environments import EnvironmentKit, check_environment, resolve_kit
from upturn.environments.validation import (
    PANEL,
    RIGHT,
    Check,
    FamilyReport,
    Plan,
    configuration_notes,
    list_unchecked,
    validate_kit,
)
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Result

_KIT_ATTACK = "own "
CONTRACT_TASKS = 20
"""Number of tasks per split for the contract's check."""


def validate(
    name: Annotated[str, typer.Argument(help="A registered environment, or module:factory.")],
    *,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks per family, half of them held-out.")] = 40,
    family: Families = None,
    seed: Annotated[int, typer.Option(help="Seed of the tasks and the random actions.")] = 0,
    processes: Annotated[int, typer.Option(min=1, help="Number of processes; does not change the figures.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Check an environment's contract, and each family's oracle, floor, determinism, mutants, attacks and unusual
    right solutions.

    Exits with 1 on a violation.
    """
    kit = resolve_kit(name)
    families = _families(kit, family or ())
    reports: list[FamilyReport] = []
    details: dict[str, object] = {}
    try:
        check_environment(kit, CONTRACT_TASKS)
        contract = Result("contract", "kept", bar="kept", holds=True)
    except WorldError as exc:
        contract = Result("contract", "broken", bar="kept", holds=False)
        details["breach"] = str(exc)
        details["unchecked"] = ["everything else: fix the contract first"]
    else:
        with progress("families", len(families)) as ticker:
            plan = Plan(tasks, seed)
            for report in validate_kit(kit, plan, families=families, name=name, processes=processes):
                reports.append(report)
                ticker.advance()
        details |= {"unchecked": list_unchecked(kit, reports), "breaches": _breaches(reports)}
        if notes := configuration_notes(kit):
            details["configuration"] = notes
    results = [contract, *(_result(report, check) for report in reports for check in report.checks)]
    if not as_json and reports:
        _show_tables(reports)
    shown = results if as_json else [result for result in results if result is contract or result.holds is False]
    emit("env validate", shown, details, as_json=as_json)
    if any(result.holds is False for result in results):
        print_message("the environment failed its validation; see MISSED above")
        raise typer.Exit(1)


def _families(kit: EnvironmentKit, families: Sequence[str]) -> tuple[str, ...]:
    for family in families:
        if family not in kit.families:
            raise UnknownNameError(f"{kit.name} has no family {family!r}; it has: {', '.join(kit.families)}")
    return tuple(dict.fromkeys(families or kit.families))


def _result(report: FamilyReport, check: Check) -> Result:
    """The check as a figure; a share has its 95 % interval."""
    from upturn.interval import clopper_pearson_interval

    name = f"{check.name} {report.family}"
    if check.value is None:
        return Result(name, "not applicable", n=0)
    bar = check.bar or None
    if not check.is_share:
        return Result(name, check.value, n=check.n, bar=bar, holds=check.holds)
    interval = clopper_pearson_interval(round(check.value * check.n), check.n)
    return interval._replace(mean=check.value).result(name, "", bar=bar, holds=check.holds)


def _breaches(reports: Sequence[FamilyReport]) -> list[str]:
    return [
        f"{check.name} {report.family}: {check.violation}"
        for report in reports
        for check in report.checks
        if check.holds is False
    ]


def _show_tables(reports: Sequence[FamilyReport]) -> None:
    """Shows the checks and the successes of each general attack by family, then the environment's own attacks and
    the unusual right solutions by name."""
    names = dict.fromkeys(check.name for report in reports for check in report.checks)
    attacks = [name for name in names if name in PANEL]
    kit_attacks = [name for name in names if name.startswith(_KIT_ATTACK)]
    right = [name for name in names if name.startswith(RIGHT)]
    others = [name for name in names if name not in (*attacks, *kit_attacks, *right)]
    for title, columns in (("checks", others), ("general attacks", attacks)):
        rows = []
        for report in reports:
            checks = {check.name: check for check in report.checks}
            cells = [_cell(checks[name]) if name in checks else "" for name in columns]
            rows.append([f"{report.family} (level {report.level})", *cells])
        show_table(f"upturn env validate: {title}", ("family", *columns), rows)
    if kit_attacks:
        rows = [_kit_attack_row(name, reports) for name in kit_attacks]
        columns = ["attack", "families", "runs", "successes", "may score at most", "most in"]
        show_table("upturn env validate: attacks", columns, rows)
    if right:
        rows = [_right_row(name, reports) for name in right]
        show_table(
            "upturn env validate: unusual right solutions", ("solution", "families", "accepted", "lowest"), rows
        )


def _kit_attack_row(name: str, reports: Sequence[FamilyReport]) -> list[str]:
    """One attack over all families; a success that scores no more than its price does not count."""
    by_family = {report.family: check for report in reports for check in report.checks if check.name == name}
    hits = {family: round((check.value or 0) * check.n) for family, check in by_family.items()}
    worst = max(hits, key=lambda family: hits[family])
    price = next(iter(by_family.values())).bar.rpartition(" above a score of ")[2] if by_family else ""
    runs, total = sum(check.n for check in by_family.values()), sum(hits.values())
    return [
        *(name.removeprefix(_KIT_ATTACK), str(len(by_family)), str(runs), f"{total}{' !' if total else ''}"),
        *("" if price.startswith("<=") else price, worst if total else ""),
    ]


def _right_row(name: str, reports: Sequence[FamilyReport]) -> list[str]:
    """A solution's name, families that it fits, accepted trajectories, and lowest share in a family."""
    fitting = [(report.family, check) for report in reports for check in report.checks if check.name == name]
    accepted = sum(round((check.value or 0) * check.n) for _, check in fitting)
    family, lowest = min(fitting, key=lambda item: item[1].value or 0)
    where = "" if lowest.value == 1 else f" in {family}"
    total = sum(check.n for _, check in fitting)
    return [name.removeprefix(RIGHT), str(len(fitting)), f"{accepted} of {total}", f"{_cell(lowest)}{where}"]


def _cell(check: Check) -> str:
    """A share in percent, or a score; a dash if there was nothing to try. ``!`` marks a violation."""
    if check.value is None:
        return "–"
    text = f"{100 * check.value:.3g} %" if check.is_share else f"{check.value:.3g}"
    return text if check.holds is not False else f"{text} !"
