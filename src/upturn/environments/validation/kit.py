"""Validates a kit family by family, and lists what could not be checked."""

import signal
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, cached_property
from itertools import repeat
from multiprocessing import get_context

from upturn.config import RewardConfig
from upturn.environments.kit import EnvironmentKit, resolve_kit, tools_of
from upturn.environments.validation.attack import NEEDS_ORACLE, PANEL
from upturn.environments.validation.determinism import digests, digests_in_subprocess
from upturn.environments.validation.family import Check, FamilyReport, Plan, validate_family
from upturn.errors import WorldError, error_text
from upturn.records import Evaluation, Task, Trajectory

_resolve_kit = cache(resolve_kit)
_DIGEST_TASKS = 1
"""Tasks per split and seed that are compared between processes."""


def validate_kit(
    kit: EnvironmentKit, plan: Plan, *, families: Sequence[str] = (), name: str | None = None, processes: int = 1
) -> Iterator[FamilyReport]:
    """Yields a report per family.

    ``families``: only these; empty = all. ``name``: for other processes to resolve the kit; None = only this
    process checks it. ``processes``: number of worker processes; 1, or no ``name``, = this process. Reports do not
    depend on it.

    A kit's exception is reported, not raised: the family's only check is then ``tried``, which does not hold.
    Raises WorldError where another process cannot check the kit.
    """
    chosen = tuple(families or kit.families)
    determinism = _Determinism(kit, chosen, name)
    reports: Iterator[FamilyReport]
    if name is None or processes == 1:
        reports = (_validate(kit, family, plan) for family in chosen)
    else:
        reports = _in_processes(name, chosen, plan, processes)
    for report in reports:
        is_broken = report.checks[0].name == "tried"
        yield report if is_broken else report._replace(checks=(*report.checks, determinism.check(report.family)))


def _validate(kit: EnvironmentKit, family: str, plan: Plan) -> FamilyReport:
    try:
        return validate_family(kit, family, plan)
    except (Exception, SystemExit) as exc:  # noqa: BLE001  third-party code: reported here
        failed = Check("tried", 0.0, 1, ">= 1", False, violation=f"it raised {error_text(exc)}")
        return FamilyReport(family, kit.families[family], (failed,))


def _in_processes(name: str, families: Sequence[str], plan: Plan, processes: int) -> Iterator[FamilyReport]:
    """Reports in the order of the families.

    Ctrl-C is handled by this process; families not yet started are skipped.
    """
    pool = ProcessPoolExecutor(processes, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        yield from pool.map(_validate_by_name, repeat(name), families, repeat(plan))
    except BrokenProcessPool as exc:
        raise WorldError(f"a process that checked families of {name!r} was stopped: {exc}") from exc
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _validate_by_name(name: str, family: str, plan: Plan) -> FamilyReport:
    return _validate(_resolve_kit(name), family, plan)


def idle_evaluation(kit: EnvironmentKit, task: Task) -> Evaluation | None:
    """The evaluation of a trajectory without actions; None = the verifier does not evaluate it."""
    try:
        environment = kit.environment(task)
        observation, _ = environment.reset(task)
        idle = Trajectory(
            id="probe",
            task_id=task.id,
            agent_version="nobody@0",
            turns=(),
            final_observation=observation,
            outcome="step_limit",
            origin="rendered",
            final_state=environment.state(),
        )
        return kit.verifier.verify(task, idle)
    except (Exception, SystemExit):  # noqa: BLE001  the verifier may still work on other trajectories; runs record its errors
        return None


def configuration_notes(kit: EnvironmentKit) -> list[str]:
    """Default reward weights in ``upturn.toml`` that name what the kit's verifier does not give, as sentences."""
    task = next(iter(kit.tasks(seed=0, split="train", families=list(kit.families))))
    evaluation, weights = idle_evaluation(kit, task), RewardConfig().weights
    missing = [] if evaluation is None else [name for name in weights if name not in evaluation.rewards]
    if evaluation is None or not missing:
        return []
    return [
        f"the default [rewards] weights name {', '.join(missing)}, which {kit.verifier.name} does not give; it "
        f"gives: {', '.join(evaluation.rewards) or 'none'}. Set [rewards] weights for these, or add the component"
    ]


def list_unchecked(kit: EnvironmentKit, reports: Sequence[FamilyReport], *, has_name: bool = True) -> list[str]:
    """Lists the checks that were not possible, with what the kit would have to provide."""
    values: defaultdict[str, list[float | None]] = defaultdict(list)
    for report in reports:
        for check in report.checks:
            values[check.name].append(check.value)
    notes = []
    has_oracle = any(value is not None for value in values["oracle"])
    if not has_oracle:
        kinds = ", ".join(("oracle", "ceiling", "mutants", *NEEDS_ORACLE))
        notes.append(f"{kinds}: the kit has no oracle; add OracleKit's methods, or pass one_step an oracle")
    if not tools_of(kit):
        used = "user.answer and user.finish" + (" and what the oracle uses" if has_oracle else "")
        notes.append(f"the kit describes no tools (DescribedKit): random actions and attacks used {used}")
    if all(value is None for value in values["canaries"]):
        notes.append("canaries: the kit has none (OracleKit.canaries)")
    inapplicable = [
        name
        for name in ("random", "mutants", *PANEL)
        if name in values and all(value is None for value in values[name])
        if has_oracle or name not in ("mutants", *NEEDS_ORACLE)
    ]
    if inapplicable:
        notes.append(f"{', '.join(inapplicable)}: not applicable in any family")
    if not has_name:
        notes.append("determinism in another process: the kit has no name to resolve there")
    return notes


class _Determinism:
    """Digests of the same tasks computed three times: twice here, once in another process."""

    def __init__(self, kit: EnvironmentKit, families: Sequence[str], name: str | None) -> None:
        self._kit = kit
        self._families = families
        self._name = name

    def check(self, family: str) -> Check:
        """Whether all digests are equal."""
        values = [by_family[family] for by_family in self._digests]
        is_same = len(set(values)) == 1
        where = "a second time" if values[0] != values[1] else "in another process"
        violation = "" if is_same else f"the same tasks, actions or evaluations differed {where}"
        return Check("determinism", float(is_same), len(values), ">= 1", is_same, violation=violation)

    @cached_property
    def _digests(self) -> list[dict[str, str]]:
        here = [digests(self._kit, self._families, _DIGEST_TASKS) for _ in range(2)]
        if self._name is None:
            return here
        return [*here, digests_in_subprocess(self._name, self._families, _DIGEST_TASKS)]
