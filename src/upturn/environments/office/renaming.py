"""Tasks with renamed operations and parameters, which test whether an agent reads its tools.

Any task can be renamed: ``renamed`` adds the seed of the names to its context. The first observation then lists the
names; the office accepts only these and uses them in its results. Names of apps and the operations of ``user``
stay. The same seed gives the same names, so a trajectory can be replayed and verified; held-out tasks have other
seeds, and so other names, than training tasks.

Not covered: words that equal a parameter's name, such as "id" in "without id lists them".
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from random import Random

from upturn.environments.action import MALFORMED, typed_action
from upturn.environments.environment import Info, Step
from upturn.environments.office.apps import APPS, parse_call, tools
from upturn.environments.office.environment import OfficeEnvironment
from upturn.environments.office.generation import DRAWN
from upturn.environments.office.state import OperationError
from upturn.errors import WorldError
from upturn.models import write_call
from upturn.records import Action, JsonValue, Observation, Task

KEY = "names"
"""In a task's context: the seed of its names."""
USER = "user"
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


@dataclass(frozen=True, slots=True)
class Names:
    """New names of operations and parameters, by their original names; those of ``user`` are not renamed."""

    operations: Mapping[str, Mapping[str, str]]
    """By app."""
    parameters: Mapping[str, str]
    original_operations: Mapping[str, Mapping[str, str]] = field(init=False)
    original_parameters: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        back = {app: {new: old for old, new in names.items()} for app, names in self.operations.items()}
        object.__setattr__(self, "original_operations", back)
        object.__setattr__(self, "original_parameters", {new: old for old, new in self.parameters.items()})

    def rename(self, action: Action) -> Action:
        """The action with the new names; raises KeyError for an unknown operation or parameter."""
        if action.target == USER:
            return _with_call(action, self.rename)
        parameters = {self.parameters[name]: value for name, value in action.parameters.items()}
        return replace(action, operation=self.operations[action.target][action.operation], parameters=parameters)

    def restore(self, action: Action) -> Action:
        """The action with the original names; raises OperationError for unknown names."""
        known = self.original_operations.get(action.target)
        if known is None:
            return _with_call(action, self.restore)  # the user, or an unknown app, which the office reports
        operation = known.get(action.operation)
        if operation is None:
            raise OperationError(
                "unknown_operation",
                f"{action.target} has no {action.operation[:80]!r} here; it has: {', '.join(known)}",
            )
        offered = _parameters()[action.target, operation]
        for name in action.parameters:
            if self.original_parameters.get(name) not in offered:
                known_here = ", ".join(self.parameters[parameter] for parameter in offered) or "none"
                raise OperationError(
                    "unknown_parameter", f"unknown parameter {str(name)[:80]!r}; known here: {known_here}"
                )
        parameters = {self.original_parameters[name]: value for name, value in action.parameters.items()}
        return replace(action, operation=operation, parameters=parameters)

    def rename_text(self, text: str, action: Action) -> str:
        """The result of an action (with original names), with the new names in the text."""
        text = _FULL_NAME.sub(lambda match: f"{match[1]}.{self.operations[match[1]].get(match[2], match[2])}", text)
        if action.target not in self.operations:
            return text
        for name in _parameters()[action.target, action.operation]:
            text = re.sub(rf"\b{name}(?==)|(?<=\'){name}(?=\')|\A{name}(?=:)", self.parameters[name], text)
        return text

    def listing(self) -> str:
        """The list of names for the first observation."""
        lines = [f"{app}: {_pairs(operations)}" for app, operations in self.operations.items()]
        return "\n".join(
            (
                "operations and parameters have other names here (usual name=name here):",
                *lines,
                f"parameters: {_pairs(self.parameters)}",
            )
        )


_FULL_NAME = re.compile(rf"\b({'|'.join(app for app in APPS if app != USER)})\.([a-z_]+)\b")


def _pairs(names: Mapping[str, str]) -> str:
    return ", ".join(f"{old}={new}" for old, new in names.items())


@cache
def _parameters() -> dict[tuple[str, str], tuple[str, ...]]:
    """The parameters of every operation, by app and name."""
    return {(tool.target, tool.operation): tuple(tool.properties) for tool in tools()}


@lru_cache(maxsize=256)
def names_from(seed: int) -> Names:
    """The names for this seed: invented words, all different."""
    rng = Random(f"{DRAWN}/names/1/{seed}")
    offered = [tool for tool in tools() if tool.target != USER]
    parameters = dict.fromkeys(name for tool in offered for name in tool.properties)
    usual = {*parameters, *(tool.operation for tool in tools())}
    used: set[str] = set(usual)

    def word() -> str:
        while True:
            candidate = "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(3))
            if candidate not in used:
                used.add(candidate)
                return candidate

    operations: dict[str, dict[str, str]] = {}
    for tool in offered:
        operations.setdefault(tool.target, {})[tool.operation] = word()
    return Names(operations, {name: word() for name in parameters})


def renamed(task: Task) -> Task:
    """The task with renamed operations; the task's seed determines the names."""
    atoms = task.context.get("atoms")
    context: dict[str, JsonValue] = {
        "atoms": [*(atoms if isinstance(atoms, list) else ()), "names"],
        KEY: task.seed,
    }
    return replace(task, id=f"{task.id}/renamed", context={**task.context, **context})


def names_of(task: Task) -> Names | None:
    """The task's names; None = not renamed. Raises WorldError for an invalid seed."""
    seed = task.context.get(KEY)
    if seed is None:
        return None
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise WorldError(f"task {task.id!r}: {KEY} in its context is the seed of its names, got {seed!r}")
    return names_from(seed)


def rename_action(task: Task, action: Action) -> Action:
    """The action with the task's names."""
    names = names_of(task)
    return action if names is None else names.rename(action)


def restore_action(task: Task, action: Action) -> Action:
    """The action with the original names; raises OperationError for names that the task does not have."""
    names = names_of(task)
    return action if names is None else names.restore(action)


def _with_call(action: Action, change: Callable[[Action], Action]) -> Action:
    """The action with ``change`` applied to the previewed call; invalid calls do not change."""
    call = action.parameters.get("call")
    if action.target != USER or not isinstance(call, str):
        return action
    return replace(action, parameters={**action.parameters, "call": _change_call(call, change)})


def _change_call(call: str, change: Callable[[Action], Action]) -> str:
    """The changed call in the same form: text or a JSON object."""
    try:
        action = parse_call(call)
    except OperationError:  # the office reports it
        return call
    new = change(action)
    if not call.lstrip().startswith("{"):
        return write_call(new)
    return json.dumps({"target_app": new.target, "operation": new.operation, "parameters": dict(new.parameters)})


class RenamedEnvironment:
    """An office with renamed operations and parameters."""

    def __init__(self, office: OfficeEnvironment, names: Names) -> None:
        self.state, self.snapshot, self.restore = office.state, office.snapshot, office.restore
        self._office = office
        self._names = names

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Resets the office; the observation ends with the list of names."""
        observation, info = self._office.reset(task)
        return replace(observation, text=f"{observation.text}\n\n{self._names.listing()}"), info

    def step(self, action: Action) -> Step:
        """The office's step; an unknown name is refused with an explanation and costs 1 as ``error``."""
        try:
            original = self._names.restore(typed_action(action))
        except OperationError as error:
            step = self._office.step(MALFORMED)  # refused without any change
            is_over = step.observation.code == "is_over"
            return step if is_over else step._replace(observation=Observation(str(error), error.code))
        step = self._office.step(original)
        text = self._names.rename_text(step.observation.text, original)
        return step._replace(observation=replace(step.observation, text=text))
