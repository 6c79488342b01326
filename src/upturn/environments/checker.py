"""A contract check for environment kits, for authors of environments.

Checked, in this order: names and levels; tasks (repeatable, in rounds, no task shared between seeds or splits); for
tasks of both splits: reset and step (repeatable, right types, no action raises, a refused action changes nothing
unless it reports faults), snapshot and restore, a state that JSON can hold; the verifier (pure, also on a stored
trajectory, within its ranges, no success for doing nothing). Not checked: whether tasks are solvable and whether
the verifier is right.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from upturn.environments.environment import Environment, Info, Step, is_potential
from upturn.environments.kit import EnvironmentKit
from upturn.errors import UpturnError, WorldError
from upturn.records import (
    Action,
    Evaluation,
    JsonValue,
    Observation,
    Outcome,
    Split,
    Task,
    Trajectory,
    Turn,
    fields_json,
    from_json,
    to_json,
)

T = TypeVar("T")

PROBES = (
    Action("", ""),
    Action("no_such_target", "no_such_operation"),
    Action("user", "no_such_operation"),
    Action("user", "answer"),
    Action("user", "answer", {"text": "none"}),
    Action("user", "answer", {"text": ""}),
    Action("user", "answer", {"text": None}),
    Action("user", "answer", {"text": 10**30}),
    Action("user", "answer", {"text": [1, {"deep": [True, -1.5]}]}),
    Action("user", "answer", {"text": "x" * 10_000}),
    Action("user", "answer", {"text": "\ud800"}),
    Action("user", "finish", {"": "", "no_such": "parameter"}),
    Action("ünïcode ✓", ".", {"=;\n": "\\"}),
)
"""Invalid actions as agents send them; ``check_environment`` accepts others."""


def check_environment(kit: EnvironmentKit, tasks: int = 20, *, probes: Sequence[Action] = PROBES) -> None:
    """Checks the contract on ``tasks`` tasks per split; raises WorldError with the first violation.

    Each probe is tried as the first action of every task. Add valid actions of the environment: most environments
    refuse the default ones.
    """
    _check_names(kit)
    by_split = {split: _check_stream(kit, split, tasks) for split in ("train", "heldout")}
    _check_splits(kit, by_split)
    for task in (*by_split["train"], *by_split["heldout"]):
        initial = _Episode.start(kit, task)
        _check_evaluation(kit, task, initial)
        for probe in probes:
            _check_evaluation(kit, task, _check_probe(kit, task, probe))


def _violation(kit: EnvironmentKit, what: str) -> WorldError:
    return WorldError(f"environment {kit.name!r} violates its contract: {what}")


def _call(kit: EnvironmentKit, what: str, call: Callable[[], T]) -> T:
    """The call's result; raises WorldError naming the call when it raises."""
    try:
        return call()
    except (Exception, SystemExit) as exc:
        raise _violation(kit, f"{what} raised {type(exc).__name__}: {exc}") from exc


def _check_names(kit: EnvironmentKit) -> None:
    if not kit.name or not isinstance(kit.name, str):
        raise WorldError(f"an environment needs a name, got {kit.name!r}")
    if not kit.families:
        raise _violation(kit, "it has no task family")
    for family, level in kit.families.items():
        if not family or not isinstance(level, int) or level < 1:
            raise _violation(kit, f"family {family!r} has level {level!r}; levels are whole numbers from 1")
    if not kit.verifier.name:
        raise _violation(kit, "its verifier has no name; give it one with a version, such as 'shop/1'")


def _check_stream(kit: EnvironmentKit, split: Split, count: int) -> list[Task]:
    """The first ``count`` tasks of seed 0, at least one round."""
    families = list(kit.families)
    count = max(count, len(families))

    def draw(seed: int) -> list[Task]:
        what = f"tasks(seed={seed}, split={split!r}, families={families!r})"
        stream = lambda: list(islice(kit.tasks(seed=seed, split=split, families=families), count))  # noqa: E731
        return _call(kit, what, stream)

    first = draw(0)
    if first != draw(0):
        raise _violation(kit, f"tasks(seed=0, split={split!r}) gave different tasks the second time")
    if sorted(task.family for task in first[: len(families)]) != sorted(families):
        raise _violation(kit, f"the first {len(families)} {split} tasks are not one of each family {families!r}")
    for task in first:
        _check_task(kit, task, split)
    ids = {task.id for task in first}
    if len(ids) < len(first):
        raise _violation(kit, f"{len(first)} {split} tasks have only {len(ids)} ids; equal ids are equal tasks")
    shared = ids & {task.id for task in draw(1)}
    if shared:
        raise _violation(
            kit, f"tasks of seeds 0 and 1 share {min(shared)!r}; different seeds must give different tasks"
        )
    return first


def _check_task(kit: EnvironmentKit, task: Task, split: Split) -> None:
    expected = (kit.name, kit.families.get(task.family), split)
    if (task.environment, task.level, task.split) != expected:
        raise _violation(
            kit,
            f"task {task.id!r} of family {task.family!r} has environment {task.environment!r}, "
            f"level {task.level!r}, split {task.split!r}; expected {', '.join(map(repr, expected))}",
        )
    if not task.instruction:
        raise _violation(kit, f"task {task.id!r} has no instruction")


def _check_splits(kit: EnvironmentKit, by_split: Mapping[str, Sequence[Task]]) -> None:
    train, heldout = by_split["train"], by_split["heldout"]
    for what, shared in (
        ("id", {task.id for task in train} & {task.id for task in heldout}),
        ("seed", {task.seed for task in train} & {task.seed for task in heldout}),
    ):
        if shared:
            raise _violation(kit, f"training and held-out tasks share the {what} {next(iter(shared))!r}")
    seen = {_appearance(kit, task) for task in train}
    if all(_appearance(kit, task) in seen for task in heldout):
        raise _violation(
            kit,
            f"all {len(heldout)} held-out tasks look like training tasks; draw from more cases, so that success on "
            "held-out tasks is more than memorisation",
        )


def _appearance(kit: EnvironmentKit, task: Task) -> tuple[str, str]:
    """The instruction and a hash of the initial state, which distinguish a task."""
    episode = _Episode.start(kit, task)
    return episode.observation.text, episode.state_hash


class _Episode(NamedTuple):
    """An episode of at most one action."""

    environment: Environment
    observation: Observation
    state_hash: str
    state: str
    """As JSON text."""
    turns: tuple[Turn, ...] = ()
    outcome: Outcome = "step_limit"

    @classmethod
    def start(cls, kit: EnvironmentKit, task: Task) -> "_Episode":
        environment = _call(kit, f"environment({task.id!r})", lambda: kit.environment(task))
        marker = getattr(environment, "blocks", False)
        if not isinstance(marker, bool):
            raise _violation(kit, f"blocks is {marker!r}; it must be True (called in a thread) or False")
        result = _call(kit, f"reset of {task.id!r}", lambda: environment.reset(task))
        if not isinstance(result, tuple) or len(result) != 2:
            raise _violation(kit, f"reset of {task.id!r} gave {result!r}; it must give an observation and an Info")
        observation, info = result
        if not isinstance(observation, Observation) or not isinstance(info, Info):
            raise _violation(kit, f"reset gave {type(observation).__name__} and {type(info).__name__}")
        _check_info(kit, info)
        if info.sim_time != 0:
            raise _violation(
                kit, f"reset gave the simulated time {info.sim_time!r}; it counts from reset and must be 0.0"
            )
        if observation.is_error or not observation.text:
            raise _violation(kit, f"the first observation must be the instruction, got {observation!r}")
        return cls(environment, observation, info.state_hash, _state_json(kit, task, environment))


def _state_json(kit: EnvironmentKit, task: Task, environment: Environment) -> str:
    """The state as JSON text."""
    state = _call(kit, "state()", lambda: environment.state())  # noqa: PLW0108  the method may be missing
    return _call(kit, "writing state() as JSON", lambda: fields_json(_trajectory(task, None, state)))


def _check_probe(kit: EnvironmentKit, task: Task, probe: Action) -> _Episode:
    """The environment after the probe as its only action, checked to give the same result three times."""
    before, twin = _Episode.start(kit, task), _Episode.start(kit, task)
    if before[1:] != twin[1:]:
        raise _violation(kit, f"resetting to {task.id!r} twice gave different worlds: {before[1:]!r}, {twin[1:]!r}")
    environment = before.environment
    snapshot = _call(kit, "snapshot()", lambda: environment.snapshot())  # noqa: PLW0108  as above
    step = _step(kit, environment, probe)
    after = _state_json(kit, task, environment)
    has_changed = after != before.state or step.info.state_hash != before.state_hash
    if step.observation.is_error and has_changed and not step.info.faults:
        raise _violation(kit, f"refusing {probe!r} with {step.observation.code!r} changed the state")
    if _step(kit, twin.environment, probe) != step or _state_json(kit, task, twin.environment) != after:
        raise _violation(kit, f"the same action {probe!r} had different results in two environments of one task")
    later = _step(kit, twin.environment, probe).info.sim_time  # also when the task is over
    if later < step.info.sim_time:
        raise _violation(
            kit, f"after {probe!r} again, simulated time decreased from {step.info.sim_time} to {later}"
        )
    _call(kit, "restore()", lambda: environment.restore(snapshot))
    if _state_json(kit, task, environment) != before.state:
        raise _violation(kit, f"restore() did not restore the state before {probe!r}")
    if _step(kit, environment, probe) != step or _state_json(kit, task, environment) != after:
        raise _violation(kit, f"{probe!r} had a different result after restore()")
    turn = Turn(before.observation, "", probe, step.reward, step.info.cost_components, before.state_hash)
    outcome: Outcome = "finished" if step.is_terminated else "step_limit"
    return _Episode(environment, step.observation, step.info.state_hash, after, (turn,), outcome)


def _step(kit: EnvironmentKit, environment: Environment, probe: Action) -> Step:
    result = _call(kit, f"step({probe!r})", lambda: environment.step(probe))
    if not isinstance(result, tuple) or len(result) != len(Step._fields):
        raise _violation(
            kit,
            f"step({probe!r}) gave {result!r}; it must give an observation, a reward, whether the task terminated, "
            "whether it was truncated, and an Info",
        )
    for value, expected in zip(result, (Observation, float, bool, bool, Info), strict=True):
        if not isinstance(value, expected):
            raise _violation(kit, f"step gave {value!r}, expected type {expected.__name__}")
    step = Step(*result)
    reward, info, costs = step.reward, step.info, step.info.cost_components
    if not math.isfinite(reward) or not _are_costs(costs):
        raise _violation(
            kit, f"step gave the reward {reward!r} and the costs {costs!r}; costs are 0 or more, both finite"
        )
    _check_info(kit, info)
    if not _are_parts(info.reward_components, reward):
        parts = info.reward_components
        raise _violation(
            kit, f"step gave the reward {reward!r} and the components {parts!r}, which do not sum to it"
        )
    return step


def _are_costs(costs: object) -> bool:
    """Whether this is a mapping of names to finite numbers of 0 or more (not NaN)."""
    return isinstance(costs, Mapping) and all(
        isinstance(cost, int | float) and 0 <= cost < math.inf for cost in costs.values()
    )


def _are_parts(components: object, reward: float) -> bool:
    """Whether this is a mapping of names to numbers that add up to the reward, or empty."""
    if not isinstance(components, Mapping) or not all(
        isinstance(part, int | float) for part in components.values()
    ):
        return False
    return not components or math.isclose(math.fsum(components.values()), reward, abs_tol=1e-9)


def _check_info(kit: EnvironmentKit, info: Info) -> None:
    if not isinstance(info.sim_time, int | float) or not 0 <= info.sim_time < math.inf:
        raise _violation(kit, f"it gave the simulated time {info.sim_time!r}; it is seconds since reset, from 0.0")
    if not is_potential(info.potential):
        raise _violation(
            kit, f"it gave the potential {info.potential!r}; potentials are floats in [0, 1], or None throughout"
        )


def _trajectory(task: Task, episode: "_Episode | None", state: Mapping[str, JsonValue]) -> Trajectory:
    """The record of an episode; None = only the state is known."""
    return Trajectory(
        id=f"check/{task.id}",
        task_id=task.id,
        agent_version="check@1",
        turns=episode.turns if episode else (),
        final_observation=episode.observation if episode else Observation(""),
        outcome=episode.outcome if episode else "step_limit",
        origin="rendered",
        final_state=state,
    )


def _check_evaluation(kit: EnvironmentKit, task: Task, episode: _Episode) -> None:
    trajectory = _trajectory(task, episode, episode.environment.state())
    actions = [turn.action for turn in episode.turns]
    evaluation = _call(kit, f"verify() of {actions!r}", lambda: kit.verifier.verify(task, trajectory))
    if not isinstance(evaluation, Evaluation):
        raise _violation(kit, f"verify() gave a {type(evaluation).__name__}")
    if evaluation != kit.verifier.verify(task, trajectory):
        raise _violation(kit, f"verify() of {actions!r} evaluated the same trajectory differently the second time")
    try:
        stored = from_json(Trajectory, to_json(trajectory))
    except UpturnError:
        return  # the probe itself cannot be stored; not a fault of the environment
    if evaluation != kit.verifier.verify(from_json(Task, to_json(task)), stored):
        raise _violation(kit, f"verify() of {actions!r} evaluated the stored trajectory differently")
    _check_fields(kit, evaluation, trajectory)


def _check_fields(kit: EnvironmentKit, evaluation: Evaluation, trajectory: Trajectory) -> None:
    references = (evaluation.task_id, evaluation.trajectory_id, evaluation.evaluator)
    expected = (trajectory.task_id, trajectory.id, kit.verifier.name)
    if references != expected:
        raise _violation(kit, f"an evaluation names {references!r} instead of {expected!r}")
    if evaluation.score is not None and not 0 <= evaluation.score <= 1:
        raise _violation(kit, f"the score {evaluation.score!r} is not in 0..1")
    if evaluation.is_success and not all(gate.is_passed for gate in evaluation.gates):
        raise _violation(kit, f"a success has failed gates: {evaluation.gates!r}")
    if evaluation.is_success and not trajectory.turns:
        raise _violation(kit, f"doing nothing in {trajectory.task_id!r} is a success")
