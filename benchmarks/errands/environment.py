"""Errands as an environment: one workspace, rebuilt from the task, changed by actions."""

from collections.abc import Mapping
from typing import NamedTuple, cast

from benchmarks.errands import calendar, mail, sheet, user
from benchmarks.errands.family import Scenario
from benchmarks.errands.operation import Effect, OperationError, check_arguments
from benchmarks.errands.tasks import compose
from benchmarks.errands.verifier import progress
from benchmarks.errands.workspace import Workspace, changes, state_hash
from upturn.environments import Info, Step
from upturn.errors import WorldError
from upturn.records import Action, JsonValue, Observation, Task

OPERATIONS = {
    f"{operation.target}.{operation.name}": operation
    for module in (mail, calendar, sheet, user)
    for operation in module.OPERATIONS
}
TARGETS = tuple(dict.fromkeys(operation.target for operation in OPERATIONS.values()))


def apply(workspace: Workspace, action: Action) -> Effect:
    """The action's effect. Raises OperationError when the action is refused."""
    if not action.target and not action.operation:
        raise OperationError("malformed", "write one call: target.operation name=value; name=value")
    if action.target not in TARGETS:
        raise OperationError("unknown_target", f"unknown target {action.target!r}; known: {', '.join(TARGETS)}")
    operation = OPERATIONS.get(f"{action.target}.{action.operation}")
    if operation is None:
        known = ", ".join(entry.name for entry in OPERATIONS.values() if entry.target == action.target)
        raise OperationError("unknown_operation", f"{action.target} has no {action.operation!r}; it has: {known}")
    effect: Effect = operation.run(workspace, check_arguments(operation, action))
    return effect


class _Figures(NamedTuple):
    """Hash and potential of a workspace."""

    workspace: Workspace
    state_hash: str
    potential: float


class ErrandsEnvironment:
    """Mail, calendar and sheets of one person. Holds one task at a time; never raises because of an action."""

    def __init__(self) -> None:
        self._scenario: Scenario | None = None
        self._workspace: Workspace | None = None
        self._is_over = False
        self._figures: _Figures | None = None

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Rebuilds the task's world; the observation is the instruction. Raises WorldError for foreign tasks."""
        scenario = compose(task)
        self._scenario, self._workspace, self._is_over = scenario, scenario.workspace, False
        self._figures = None  # another task may have the same workspace and another goal
        return Observation(task.instruction), self._info({})

    def step(self, action: Action) -> Step:
        """Applies one action; a refused one changes nothing, costs 1 as ``error`` and has an explanation."""
        workspace = self._current()
        if self._is_over:
            return self._refuse(OperationError("is_over", "the task is over; reset starts another"))
        try:
            effect = apply(workspace, action)
        except OperationError as error:
            return self._refuse(error)
        self._workspace, self._is_over = effect.workspace, effect.is_final
        return Step(Observation(effect.text), 0.0, effect.is_final, False, self._info({}))

    def state(self) -> Mapping[str, JsonValue]:
        """Changes of the initial workspace, the values ``before`` them, and the last message to the user."""
        workspace, initial = self._current(), self._current_scenario().workspace
        last = workspace.messages[-1] if workspace.messages else None
        message: JsonValue = {"kind": last.kind, "text": last.text} if last is not None else None
        now = changes(initial, workspace)
        before = {path: value for path, value in changes(workspace, initial).items() if path[-1] not in "+-"}
        return {"changes": now, "before": before, "message": message}

    def snapshot(self) -> object:
        """A reference to the state; workspaces are immutable."""
        return (self._current(), self._is_over)

    def restore(self, snapshot: object) -> None:
        """Goes back to a snapshot of the same task."""
        self._workspace, self._is_over = cast(tuple[Workspace, bool], snapshot)

    def _current(self) -> Workspace:
        if self._workspace is None:
            raise WorldError("errands has no task yet; call reset(task) first")
        return self._workspace

    def _current_scenario(self) -> Scenario:
        assert self._scenario is not None  # reset sets it with the workspace
        return self._scenario

    def _info(self, costs: Mapping[str, float]) -> Info:
        """Info of the current state."""
        workspace, figures = self._current(), self._figures
        if figures is None or figures.workspace is not workspace:  # most actions change nothing
            scenario = self._current_scenario()
            potential = progress(scenario.draft, changes(scenario.workspace, workspace))
            self._figures = figures = _Figures(workspace, state_hash(workspace), potential)
        return Info({}, costs, state_hash=figures.state_hash, potential=figures.potential)

    def _refuse(self, error: OperationError) -> Step:
        costs = {"error": 1.0}
        if error.safety_cost:
            costs["safety"] = error.safety_cost
        return Step(Observation(str(error), error.code), 0.0, self._is_over, False, self._info(costs))
