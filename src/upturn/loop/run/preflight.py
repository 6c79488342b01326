"""Checks before any work: everything that a configuration names exists. Problems are reported together."""

import asyncio
import shutil
from collections.abc import Collection, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from upturn.agents import load_function
from upturn.config import CanarySettings, Config, RewardConfig, TaskConfig, overlaps
from upturn.environments import EnvironmentKit, draw_tasks
from upturn.environments.validation import idle_evaluation
from upturn.errors import ConfigError, SandboxError, TrainingError, UnknownNameError, WorldError
from upturn.loop.run.task_source import kit_of, trained_families
from upturn.records import Evaluation, Split
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.runs import check_tracker

_QUANTISED = ("bitsandbytes", "bitsandbytes", "quantised")
"""Library, package and extra of weights and moments in few bits."""


def load_checked_kit(config: Config) -> EnvironmentKit:
    """The configured kit, after all checks.

    Raises ConfigError for a missing environment, verifier, task file, family, agent function, task, reward
    component or limited cost.
    """
    try:
        kit = kit_of(config)
    except UnknownNameError as exc:
        raise ConfigError([f"environment.name: {exc}", *_functions(config)]) from exc
    except ConfigError as exc:
        raise ConfigError([*exc.problems, *_functions(config)]) from exc
    check_names(config, kit)
    return kit


def check_names(config: Config, kit: EnvironmentKit) -> None:
    """Raises ConfigError for missing families, agent functions, tasks, reward components and costs."""
    if problems := [*_names(config, kit), *_functions(config)]:
        raise ConfigError(problems)


def name_problems(config: Config, invalid: Collection[str]) -> list[str]:
    """The same problems, of a configuration that has others: ``invalid`` are its invalid settings.

    What depends on an invalid setting is not checked.
    """
    functions = list(_functions(config, invalid))
    if any(overlaps(setting, bad) for setting in ("environment.name", "environment.verifier") for bad in invalid):
        return functions
    has_tasks = not any(overlaps("tasks", bad) for bad in invalid)
    if config.tasks.file and not Path(config.tasks.file).is_file():  # already reported
        config, has_tasks = replace(config, tasks=TaskConfig()), False
    try:
        kit = kit_of(config)
    except UnknownNameError as exc:
        return [f"environment.name: {exc}", *functions]
    except ConfigError as exc:
        return [*exc.problems, *functions]
    try:
        return [*(_names(config, kit) if has_tasks else ()), *functions]
    except WorldError as exc:  # of drawing tasks
        return [str(exc), *functions]


def _names(config: Config, kit: EnvironmentKit) -> list[str]:
    """Problems of everything but the agents' functions."""
    problems = list(_families(config, kit))
    if not problems and config.trains:
        problems += _tasks(config, kit)
    if config.trains:
        problems += _components(config, kit)
    for tracker in config.trackers.use:
        try:
            check_tracker(tracker)
        except TrainingError as exc:
            problems.append(f"trackers.use: {exc}")
    return [*problems, *_packages(config)]


def _packages(config: Config) -> Iterator[str]:
    """Settings that need an extra which is not installed."""
    needed = []
    if config.lora is not None:
        needed.append((f"lora.rank = {config.lora.rank}", "PEFT", "peft", "lora"))
        if config.lora.base == "nf4":
            needed.append(("lora.base = 'nf4'", *_QUANTISED))
    optimisers = [("optimiser", config.optimiser)]
    optimisers += [(f"{name}.optimiser", value) for name, value in _parts(config, "optimiser")]
    eight_bit = [name for name, value in optimisers if value.moments == "8bit"]
    needed += [(f"{name}.moments = '8bit'", *_QUANTISED) for name in eight_bit[:1]]  # algorithms inherit the first
    options = [(f"agents[{index}]", agent.sampling) for index, agent in enumerate(config.agents)]
    options += _parts(config, "sampling")
    restricted = [name for name, value in options if value.calls_only and config.rollouts.place != "engine"]
    needed += [(f"{name}.sampling.calls_only = true", "llguidance", "llguidance", "grammar") for name in restricted]
    for setting, library, package, extra in needed:
        if find_spec(package) is None:
            yield f"{setting} needs {library}, which is not installed: pip install 'upturn[{extra}]'"


def _parts(config: Config, name: str) -> list[tuple[str, Any]]:
    """The part of that name of each algorithm's section that has one."""
    parts = ((algorithm, getattr(section, name, None)) for algorithm, section in config.algorithms.items())
    return [(algorithm, part) for algorithm, part in parts if part is not None]


def _families(config: Config, kit: EnvironmentKit) -> Iterator[str]:
    known, levels = ", ".join(kit.families), config.tasks.levels
    if levels and not any(level in levels for level in kit.families.values()):
        available = ", ".join(str(level) for level in sorted(set(kit.families.values())))
        yield f"tasks.levels = {levels!r} leaves no family of {kit.name}; its levels: {available}"
        levels = ()
    named = {"families": config.tasks.families, "train_families": config.tasks.train_families}
    for setting, families in named.items():
        for family in families:
            level = kit.families.get(family)
            if level is None:
                yield f"tasks.{setting} names {family!r}, which {kit.name} does not have; it has: {known}"
            elif levels and level not in levels:
                yield (
                    f"tasks.{setting} names {family!r} of level {level}, which tasks.levels = {levels!r} leaves out"
                )


def _functions(config: Config, invalid: Collection[str] = ()) -> Iterator[str]:
    for index, agent in enumerate(config.agents):
        is_invalid = any(
            overlaps(f"agents[{index}].{name}", bad) for name in ("kind", "import_path") for bad in invalid
        )
        if agent.command and shutil.which(agent.command[0]) is None:
            yield f"agents[{index}].command: {agent.command[0]!r} is no command here; give the path of a program"
        if agent.program.sandbox and (problem := _sandbox_problem()):
            yield f"agents[{index}].program.sandbox: {problem}"
        is_program = agent.kind == "program" and agent.import_path != ""
        if (agent.kind in ("callable", "rule_based") or is_program) and not is_invalid:
            try:
                load_function(agent.import_path, *(("attempt",) if is_program else ()))
            except ConfigError as exc:
                yield from (f"agents[{index}].import_path: {problem}" for problem in exc.problems)


def _sandbox_problem() -> str:
    """Why no sandbox can run here; empty = it can."""
    from upturn.environments.sandbox import Bubblewrap

    with TemporaryDirectory() as folder:
        try:
            asyncio.run(Bubblewrap(Path(folder)).check())
        except SandboxError as exc:
            return str(exc)
    return ""


def _tasks(config: Config, kit: EnvironmentKit) -> Iterator[str]:
    """A task file may lack tasks for training or evaluation; other environments generate them."""
    families = trained_families(config, kit)
    splits: tuple[tuple[Split, str], ...] = (("train", "training"), ("heldout", "held-out"))
    for split, name in splits:
        if next(draw_tasks(kit, seed=config.run.seed, split=split, families=families), None) is None:
            yield f"{kit.name} has no {name} task of the trained families: {', '.join(families)}"


def _components(config: Config, kit: EnvironmentKit) -> Iterator[str]:
    """Rewards and costs that the configuration names and the verifier does not give."""
    families = tuple(family for family in config.tasks.families if family in kit.families) or tuple(kit.families)
    task = next(draw_tasks(kit, seed=config.run.seed, split="train", families=families), None)
    if task is None:
        return
    evaluation = idle_evaluation(kit, task)
    if evaluation is None:
        return
    if evaluation.verdict != "missing":
        yield from _canary_costs(config, evaluation)
    if "grpo" in config.loop.train:
        yield from _rewards(config, evaluation)
    if config.rewards.measures:
        plain = idle_evaluation(kit_of(replace(config, rewards=RewardConfig())), task)
        for measure in config.rewards.measures:
            if plain is not None and measure.name in plain.rewards:
                yield f"rewards.measures: {plain.evaluator} gives {measure.name!r} too; rename the measure"


def _canary_costs(config: Config, evaluation: Evaluation) -> Iterator[str]:
    """A safety cost that is never reported would switch the test of safety off, a hard one would block
    promotion."""
    costs = ", ".join(evaluation.costs) or "none"
    for setting in ("safety_costs", "hard_costs"):
        names = getattr(config.canary, setting)
        for name in () if names == getattr(CanarySettings(), setting) else names:
            if name not in evaluation.costs:
                verifier = evaluation.evaluator
                yield f"canary.{setting} names {name!r}, which {verifier} does not give; it gives: {costs}"


def _rewards(config: Config, evaluation: Evaluation) -> Iterator[str]:
    """A weight for a component that the verifier lacks would leave all trajectories without a reward, and a limit
    on such a cost would never bind."""
    verifier, components = evaluation.evaluator, ", ".join(evaluation.rewards)
    measures = [measure.name for measure in config.rewards.measures]
    for setting in ("weights", "gates"):
        for name in getattr(config.rewards, setting):
            if name not in evaluation.rewards and name not in measures:
                yield (
                    f"rewards.{setting} names {name!r}, which {verifier} does not give; it gives: {components}. "
                    f"Set [rewards] {setting} for these, or add it to the verifier or to rewards.measures"
                )
    if evaluation.verdict == "missing":
        return
    costs = ", ".join(evaluation.costs) or "none"
    settings = config.section(GrpoSettings)
    for name, limit in settings.cost_limits.items():
        if name not in evaluation.costs:
            yield (
                f"grpo.cost_limits: {name} = {limit:g} could never bind: {verifier} gives no such cost; it gives: "
                f"{costs}. Add the cost to the verifier, also where it is 0, or set other limits ({{}}: none)"
            )
    lagrangian = settings.advantage.lagrangian
    for name in () if lagrangian is None else lagrangian.budgets:
        if name not in evaluation.costs:
            yield (
                f"grpo.advantage.lagrangian.budgets names {name!r}, which {verifier} does not give; it gives: "
                f"{costs}"
            )
