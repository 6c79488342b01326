"""The contract of an environment kit, checked: for authors of environments, before agents meet them.

Checked, in this order: names and levels; tasks (repeatable, in rounds, no task shared between seeds or splits);
for tasks of both splits: reset and step (repeatable, right types, nothing an agent sends raises, a refused action
changes nothing, unless it tells of faults), snapshot and restore, a state that JSON can hold; the verifier (pure,
also on a trajectory that was stored and read again, within its ranges, no success for doing nothing). Not checked:
whether tasks can be solved and whether the verifier is right.
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
"""Actions that agents write by mistake; ``check_environment`` takes others as well."""


def check_environment(kit: EnvironmentKit, tasks: int = 20, *, probes: Sequence[Action] = PROBES) -> None:
    """Returns when the kit keeps its contract on ``tasks`` tasks a split; raises WorldError naming the breach.

    Each probe is tried as the first action of every task. Add actions that work in the environment: those given
    here by default are mistakes in most.
    """
    _check_names(kit)
    drawn = {split: _check_stream(kit, split, tasks) for split in ("train", "heldout")}
    _check_splits(kit, drawn)
    for task in (*drawn["train"], *drawn["heldout"]):
        opening = _Attempt.begin(kit, task)
        _check_evaluation(kit, task, opening)
        for probe in probes:
            _check_evaluation(kit, task, _check_probe(kit, task, probe))


def _breach(kit: EnvironmentKit, what: str) -> WorldError:
    return WorldError(f"environment {kit.name!r} breaks its contract: {what}")


def _asked(kit: EnvironmentKit, what: str, ask: Callable[[], T]) -> T:
    """The answer; raises WorldError that says what was asked when there is none."""
    try:
        return ask()
    except Exception as exc:
        raise _breach(kit, f"{what} raised {type(exc).__name__}: {exc}") from exc


def _check_names(kit: EnvironmentKit) -> None:
    if not kit.name or not isinstance(kit.name, str):
        raise WorldError(f"an environment needs a name, got {kit.name!r}")
    if not kit.families:
        raise _breach(kit, "it has no task family")
    for family, level in kit.families.items():
        if not family or not isinstance(level, int) or level < 1:
            raise _breach(kit, f"family {family!r} has level {level!r}; levels are whole numbers from 1")
    if not kit.verifier.name:
        raise _breach(kit, "its verifier has no name; give it one with a version, such as 'shop/1'")


def _check_stream(kit: EnvironmentKit, split: Split, count: int) -> list[Task]:
    """The first ``count`` tasks of seed 0, at least one round."""
    families = list(kit.families)
    count = max(count, len(families))

    def draw(seed: int) -> list[Task]:
        what = f"tasks(seed={seed}, split={split!r}, families={families!r})"
        stream = lambda: list(islice(kit.tasks(seed=seed, split=split, families=families), count))  # noqa: E731
        return _asked(kit, what, stream)

    found = draw(0)
    if found != draw(0):
        raise _breach(kit, f"tasks(seed=0, split={split!r}) gave other tasks the second time")
    if sorted(task.family for task in found[: len(families)]) != sorted(families):
        raise _breach(kit, f"the first {len(families)} {split} tasks are not one of each family {families!r}")
    for task in found:
        _check_task(kit, task, split)
    ids = {task.id for task in found}
    if len(ids) < len(found):
        raise _breach(kit, f"{len(found)} {split} tasks have only {len(ids)} ids; equal ids are equal tasks")
    shared = ids & {task.id for task in draw(1)}
    if shared:
        raise _breach(kit, f"tasks of seeds 0 and 1 share {min(shared)!r}; each seed has tasks of its own")
    return found


def _check_task(kit: EnvironmentKit, task: Task, split: Split) -> None:
    expected = (kit.name, kit.families.get(task.family), split)
    if (task.environment, task.level, task.split) != expected:
        raise _breach(
            kit,
            f"task {task.id!r} of family {task.family!r} says environment {task.environment!r}, "
            f"level {task.level!r}, split {task.split!r}; expected {', '.join(map(repr, expected))}",
        )
    if not task.instruction:
        raise _breach(kit, f"task {task.id!r} has no instruction")


def _check_splits(kit: EnvironmentKit, drawn: Mapping[str, Sequence[Task]]) -> None:
    train, heldout = drawn["train"], drawn["heldout"]
    for what, shared in (
        ("id", {task.id for task in train} & {task.id for task in heldout}),
        ("seed", {task.seed for task in train} & {task.seed for task in heldout}),
    ):
        if shared:
            raise _breach(kit, f"training and held-out tasks share the {what} {next(iter(shared))!r}")
    seen = {_face(kit, task) for task in train}
    if all(_face(kit, task) in seen for task in heldout):
        raise _breach(
            kit,
            f"all of {len(heldout)} held-out tasks look like training tasks; draw from more cases, so that success "
            "on held-out tasks is more than memory",
        )


def _face(kit: EnvironmentKit, task: Task) -> tuple[str, str]:
    """What tells a task from others: its instruction and the state it begins in."""
    attempt = _Attempt.begin(kit, task)
    return attempt.observation.text, attempt.state_hash


class _Attempt(NamedTuple):
    """An environment after at most one action."""

    environment: Environment
    observation: Observation
    state_hash: str
    state: str
    """As JSON text."""
    turns: tuple[Turn, ...] = ()
    outcome: Outcome = "step_limit"

    @classmethod
    def begin(cls, kit: EnvironmentKit, task: Task) -> "_Attempt":
        environment = _asked(kit, f"environment({task.id!r})", lambda: kit.environment(task))
        marker = getattr(environment, "blocks", False)
        if not isinstance(marker, bool):
            raise _breach(kit, f"blocks is {marker!r}; it must be True (called in a thread) or False")
        opened = _asked(kit, f"reset of {task.id!r}", lambda: environment.reset(task))
        if not isinstance(opened, tuple) or len(opened) != 2:
            raise _breach(kit, f"reset of {task.id!r} gave {opened!r}; it must give an observation and an Info")
        observation, info = opened
        if not isinstance(observation, Observation) or not isinstance(info, Info):
            raise _breach(kit, f"reset gave {type(observation).__name__} and {type(info).__name__}")
        _check_info(kit, info)
        if info.sim_time != 0:
            raise _breach(
                kit, f"reset gave the simulated time {info.sim_time!r}; it counts from reset, so give 0.0"
            )
        if observation.is_error or not observation.text:
            raise _breach(kit, f"the first observation must be the instruction, got {observation!r}")
        return cls(environment, observation, info.state_hash, _state(kit, task, environment))


def _state(kit: EnvironmentKit, task: Task, environment: Environment) -> str:
    """The state as JSON text."""
    state = _asked(kit, "state()", lambda: environment.state())  # noqa: PLW0108  it may have no such method
    return _asked(kit, "writing state() as JSON", lambda: fields_json(_trajectory(task, None, state)))


def _check_probe(kit: EnvironmentKit, task: Task, probe: Action) -> _Attempt:
    """The attempt in which the probe is the only action, after making it three times with the same result."""
    before, twin = _Attempt.begin(kit, task), _Attempt.begin(kit, task)
    if before[1:] != twin[1:]:
        raise _breach(kit, f"resetting to {task.id!r} twice gave different worlds: {before[1:]!r}, {twin[1:]!r}")
    environment = before.environment
    snapshot = _asked(kit, "snapshot()", lambda: environment.snapshot())  # noqa: PLW0108  as above
    step = _stepped(kit, environment, probe)
    after = _state(kit, task, environment)
    has_changed = after != before.state or step.info.state_hash != before.state_hash
    if step.observation.is_error and has_changed and not step.info.faults:
        raise _breach(kit, f"refusing {probe!r} with {step.observation.code!r} changed the state")
    if _stepped(kit, twin.environment, probe) != step or _state(kit, task, twin.environment) != after:
        raise _breach(kit, f"the same action {probe!r} had different results in two environments of one task")
    later = _stepped(kit, twin.environment, probe).info.sim_time  # also when the task is over
    if later < step.info.sim_time:
        raise _breach(kit, f"after {probe!r} again its simulated time fell from {step.info.sim_time} to {later}")
    _asked(kit, "restore()", lambda: environment.restore(snapshot))
    if _state(kit, task, environment) != before.state:
        raise _breach(kit, f"restore() did not bring back the state before {probe!r}")
    if _stepped(kit, environment, probe) != step or _state(kit, task, environment) != after:
        raise _breach(kit, f"{probe!r} had another result after restore()")
    turn = Turn(before.observation, "", probe, step.reward, step.info.cost_components, before.state_hash)
    outcome: Outcome = "finished" if step.is_terminated else "step_limit"
    return _Attempt(environment, step.observation, step.info.state_hash, after, (turn,), outcome)


def _stepped(kit: EnvironmentKit, environment: Environment, probe: Action) -> Step:
    given = _asked(kit, f"step({probe!r})", lambda: environment.step(probe))
    if not isinstance(given, tuple) or len(given) != len(Step._fields):
        raise _breach(
            kit,
            f"step({probe!r}) gave {given!r}; it must give an observation, a reward, whether the task is over, "
            "whether it was cut short, and an Info",
        )
    observation, reward, is_terminated, is_truncated, info = given
    shapes = (
        (observation, Observation),
        (reward, float),
        (is_terminated, bool),
        (is_truncated, bool),
        (info, Info),
    )
    for value, expected in shapes:
        if not isinstance(value, expected):
            raise _breach(kit, f"step gave {value!r} where a {expected.__name__} belongs")
    costs = info.cost_components
    if not math.isfinite(reward) or not _are_costs(costs):
        raise _breach(
            kit, f"step gave the reward {reward!r} and the costs {costs!r}; costs are 0 or more, both finite"
        )
    _check_info(kit, info)
    if not _are_parts(info.reward_components, reward):
        parts = info.reward_components
        raise _breach(
            kit, f"step gave the reward {reward!r} and the components {parts!r}, which do not add up to it"
        )
    return Step(*given)


def _are_costs(costs: object) -> bool:
    """Whether this is a mapping of names to finite numbers from 0; a NaN is none."""
    return isinstance(costs, Mapping) and all(
        isinstance(cost, int | float) and 0 <= cost < math.inf for cost in costs.values()
    )


def _are_parts(components: object, reward: float) -> bool:
    """Whether this is a mapping of names to numbers whose sum is the reward; an empty one says nothing."""
    if not isinstance(components, Mapping) or not all(
        isinstance(part, int | float) for part in components.values()
    ):
        return False
    return not components or math.isclose(math.fsum(components.values()), reward, abs_tol=1e-9)


def _check_info(kit: EnvironmentKit, info: Info) -> None:
    if not isinstance(info.sim_time, int | float) or not 0 <= info.sim_time < math.inf:
        raise _breach(kit, f"it gave the simulated time {info.sim_time!r}; it is seconds since reset, from 0.0")
    if not is_potential(info.potential):
        raise _breach(
            kit, f"it gave the potential {info.potential!r}; potentials are floats in [0, 1], or None throughout"
        )


def _trajectory(task: Task, attempt: "_Attempt | None", state: Mapping[str, JsonValue]) -> Trajectory:
    """The record of an attempt; None = nothing is known but the state."""
    return Trajectory(
        id=f"check/{task.id}",
        task_id=task.id,
        agent_version="check@1",
        turns=attempt.turns if attempt else (),
        final_observation=attempt.observation if attempt else Observation(""),
        outcome=attempt.outcome if attempt else "step_limit",
        origin="rendered",
        final_state=state,
    )


def _check_evaluation(kit: EnvironmentKit, task: Task, attempt: _Attempt) -> None:
    trajectory = _trajectory(task, attempt, attempt.environment.state())
    done = [turn.action for turn in attempt.turns]
    evaluation = _asked(kit, f"verify() of {done!r}", lambda: kit.verifier.verify(task, trajectory))
    if not isinstance(evaluation, Evaluation):
        raise _breach(kit, f"verify() gave a {type(evaluation).__name__}")
    if evaluation != kit.verifier.verify(task, trajectory):
        raise _breach(kit, f"verify() of {done!r} judged the same trajectory differently the second time")
    try:
        stored = from_json(Trajectory, to_json(trajectory))
    except UpturnError:
        return  # the agent's own text cannot be stored; that is not the environment's doing
    if evaluation != kit.verifier.verify(from_json(Task, to_json(task)), stored):
        raise _breach(kit, f"verify() of {done!r} judged the trajectory differently once stored and read again")
    _check_judgement(kit, evaluation, trajectory)


def _check_judgement(kit: EnvironmentKit, evaluation: Evaluation, trajectory: Trajectory) -> None:
    named = (evaluation.task_id, evaluation.trajectory_id, evaluation.evaluator)
    expected = (trajectory.task_id, trajectory.id, kit.verifier.name)
    if named != expected:
        raise _breach(kit, f"an evaluation names {named!r} instead of {expected!r}")
    if evaluation.score is not None and not 0 <= evaluation.score <= 1:
        raise _breach(kit, f"the score {evaluation.score!r} is not in 0..1")
    if evaluation.is_success and not all(gate.is_passed for gate in evaluation.gates):
        raise _breach(kit, f"a success has failed gates: {evaluation.gates!r}")
    if evaluation.is_success and not trajectory.turns:
        raise _breach(kit, f"doing nothing in {trajectory.task_id!r} is judged a success")
