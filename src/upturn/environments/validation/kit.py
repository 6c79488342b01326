"""A whole kit, family by family, and what could not be checked about it."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import repeat
from multiprocessing import get_context

from upturn.environments.kit import EnvironmentKit, resolve_kit, tools_of
from upturn.environments.validation.attack import NEEDS_ORACLE, PANEL
from upturn.environments.validation.determinism import digests, digests_elsewhere
from upturn.environments.validation.family import Check, FamilyReport, Plan, validate_family
from upturn.errors import WorldError, described

_DIGESTED = 1
"""Tasks of each split and seed that are compared between processes."""


def validate_kit(
    kit: EnvironmentKit,
    plan: Plan,
    *,
    families: Sequence[str] = (),
    name: str | None = None,
    processes: int = 1,
) -> Iterator[FamilyReport]:
    """Reports family by family.

    ``families``: only these; empty = all. ``name``: by which another process finds the kit; None = only this one is
    tried. ``processes``: that families are shared out to, 1 = none but this one, the only one without a name;
    reports are the same.

    A kit that raises is reported, not raised: the family's only check is then ``tried``, which does not hold.
    Raises WorldError where another process cannot try the kit.
    """
    chosen = tuple(families or kit.families)
    sayings = _Sayings(kit, chosen, name)
    reports: Iterator[FamilyReport]
    if name is None or processes == 1:
        reports = (_tried(kit, family, plan) for family in chosen)
    else:
        reports = _shared_out(name, chosen, plan, processes)
    for report in reports:
        is_broken = report.checks[0].name == "tried"
        yield report if is_broken else report._replace(checks=(*report.checks, sayings.check(report.family)))


def _tried(kit: EnvironmentKit, family: str, plan: Plan) -> FamilyReport:
    try:
        return validate_family(kit, family, plan)
    except Exception as exc:  # noqa: BLE001  # of foreign code: this is where it is reported
        broken = Check("tried", 0.0, 1, ">= 1", False, breach=f"it raised {described(exc)}")
        return FamilyReport(family, kit.families[family], (broken,))


def _shared_out(name: str, families: Sequence[str], plan: Plan, processes: int) -> Iterator[FamilyReport]:
    """In the families' order. Ctrl-C is this process's to handle; families not yet begun are then left."""
    pool = ProcessPoolExecutor(processes, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        yield from pool.map(_tried_there, repeat(name), families, repeat(plan))
    except BrokenProcessPool as exc:
        raise WorldError(f"a process that tried families of {name!r} was stopped: {exc}") from exc
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _tried_there(name: str, family: str, plan: Plan) -> FamilyReport:
    return _tried(_kit(name), family, plan)


@cache
def _kit(name: str) -> EnvironmentKit:
    return resolve_kit(name)


def unchecked(kit: EnvironmentKit, reports: Sequence[FamilyReport], *, has_name: bool = True) -> list[str]:
    """What nothing can be said about, in words: why, and what the kit would have to offer."""
    values: Mapping[str, list[float | None]] = _by_name(reports)
    found = []
    has_oracle = any(value is not None for value in values.get("oracle", ()))
    if not has_oracle:
        kinds = ", ".join(("oracle", "ceiling", "mutants", *NEEDS_ORACLE))
        found.append(f"{kinds}: the kit knows no oracle; give it ProvenKit's methods, or one_step an oracle")
    if not tools_of(kit):
        used = "user.answer and user.finish" + (" and what the oracle uses" if has_oracle else "")
        found.append(f"the kit describes no tools (DescribedKit): random actions and attacks used {used}")
    if all(value is None for value in values.get("canaries", [None])):
        found.append("canaries: the kit names none (ProvenKit.canaries)")
    never = [
        name
        for name in ("random", "mutants", *PANEL)
        if name in values and all(value is None for value in values[name])
        if has_oracle or name not in ("mutants", *NEEDS_ORACLE)
    ]
    if never:
        found.append(f"{', '.join(never)}: there was no way to try it in any family")
    if not has_name:
        found.append("determinism in another process: the kit has no name to be found by there")
    return found


class _Sayings:
    """What the kit says of the same tasks three times: twice here, once elsewhere."""

    def __init__(self, kit: EnvironmentKit, families: Sequence[str], name: str | None) -> None:
        self._kit = kit
        self._families = families
        self._name = name
        self._found: list[dict[str, str]] | None = None

    def check(self, family: str) -> Check:
        """Whether all are the same."""
        if self._found is None:
            self._found = [digests(self._kit, self._families, _DIGESTED) for _ in range(2)]
            if self._name is not None:
                self._found.append(digests_elsewhere(self._name, self._families, _DIGESTED))
        said = [each[family] for each in self._found]
        where = "a second time" if said[0] != said[1] else "in another process"
        is_same = len(set(said)) == 1
        return Check(
            "determinism",
            float(is_same),
            len(said),
            ">= 1",
            is_same,
            breach="" if is_same else f"the same tasks, actions or judgements came out differently {where}",
        )


def _by_name(reports: Sequence[FamilyReport]) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for report in reports:
        for check in report.checks:
            found.setdefault(check.name, []).append(check.value)
    return found
