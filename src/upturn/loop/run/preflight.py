"""What a configuration names must be there: everything that is not is reported together, before any work."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from upturn.agents import load_function
from upturn.config import Config
from upturn.environments import EnvironmentKit
from upturn.errors import ConfigError, UnknownNameError
from upturn.loop.run.task_source import kit_of, trained_families
from upturn.records import Evaluation, Split, Task, Trajectory
from upturn.training.algorithms.grpo import GrpoSettings


def checked_kit(config: Config) -> EnvironmentKit:
    """The configured kit, when everything that is named is there.

    Raises ConfigError for environment, judge, task file, families, agents' functions, tasks, reward components and
    limited costs.
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
    """Raises ConfigError for families, agents' functions, tasks, reward components and costs that are not there."""
    problems = [*_families(config, kit), *_functions(config), *_adapter(config)]
    if not problems and config.trains:
        problems += _practice(config, kit)
    if not problems and "grpo" in config.loop.train:
        problems += _rewards(config, kit)
    if problems:
        raise ConfigError(problems)


def _families(config: Config, kit: EnvironmentKit) -> Iterator[str]:
    known, levels = ", ".join(kit.families), config.tasks.levels
    named: Sequence[tuple[str, Sequence[str]]] = (
        ("tasks.families", config.tasks.families),
        ("tasks.train_families", config.tasks.train_families),
    )
    if levels and not any(level in levels for level in kit.families.values()):
        has = ", ".join(str(level) for level in sorted(set(kit.families.values())))
        yield f"tasks.levels = {levels!r} leaves no family of {kit.name}; its levels: {has}"
        levels = ()
    for setting, families in named:
        for family in families:
            level = kit.families.get(family)
            if level is None:
                yield f"{setting} names {family!r}, which {kit.name} does not have; it has: {known}"
            elif levels and level not in levels:
                yield f"{setting} names {family!r} of level {level}, which tasks.levels = {levels!r} leaves out"


def _adapter(config: Config) -> Iterator[str]:
    if config.lora is not None and find_spec("peft") is None:
        yield f"lora.rank = {config.lora.rank} needs PEFT, which is not installed: pip install 'upturn[lora]'"


def _practice(config: Config, kit: EnvironmentKit) -> Iterator[str]:
    """A file may lack what training or its heldout_results need; other environments make tasks without end."""
    families = trained_families(config, kit)
    for split, word in _SPLITS:
        if next(kit.tasks(seed=config.run.seed, split=split, families=families), None) is None:
            yield f"{kit.name} has no {word} task of the trained families: {', '.join(families)}"


_SPLITS: tuple[tuple[Split, str], ...] = (("train", "training"), ("heldout", "held-out"))


def _functions(config: Config) -> Iterator[str]:
    for index, agent in enumerate(config.agents):
        if agent.kind in ("callable", "rule_based"):
            try:
                load_function(agent.import_path)
            except ConfigError as exc:
                yield from (f"agents[{index}].import_path: {problem}" for problem in exc.problems)


def _rewards(config: Config, kit: EnvironmentKit) -> Iterator[str]:
    """Weights of components that the judge does not give would leave every attempt without a reward, and limits on
    costs that it does not give would never bind."""
    families = config.tasks.families or tuple(kit.families)
    task = next(kit.tasks(seed=config.run.seed, split="train", families=families))
    evaluation = _probe(kit, task)
    if evaluation is None:
        return
    given = ", ".join(evaluation.rewards)
    for name in config.rewards.weights:
        if name not in evaluation.rewards:
            yield f"rewards.weights names {name!r}, which {kit.verifier.name} does not give; it gives: {given}"
    if evaluation.verdict == "missing":
        return
    given = ", ".join(evaluation.costs) or "none"
    settings = config.section(GrpoSettings)
    for name, limit in settings.cost_limits.items():
        if name not in evaluation.costs:
            yield (
                f"grpo.cost_limits: {name} = {limit:g} could never bind: {kit.verifier.name} gives no "
                f"such cost; it gives: {given}. Let it give that, 0 included, or set other limits ({{}}: none)"
            )
    lagrangian = settings.advantage.lagrangian
    for name in () if lagrangian is None else lagrangian.budgets:
        if name not in evaluation.costs:
            yield (
                f"grpo.advantage.lagrangian.budgets names {name!r}, which {kit.verifier.name} does not give; it "
                f"gives: "
                f"{given}"
            )


def _probe(kit: EnvironmentKit, task: Task) -> Evaluation | None:
    """The judge's view of an attempt that did nothing; None = it does not judge such ones."""
    try:
        environment = kit.environment(task)
        observation, _ = environment.reset(task)
        nothing = Trajectory(
            id="probe",
            task_id=task.id,
            agent_version="nobody@0",
            turns=(),
            final_observation=observation,
            outcome="step_limit",
            origin="rendered",
            final_state=environment.state(),
        )
        return kit.verifier.verify(task, nothing)
    except Exception:  # noqa: BLE001 — a judge that breaks on nothing may still judge attempts; runs record what breaks
        return None
