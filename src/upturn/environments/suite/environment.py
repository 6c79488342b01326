"""The suite as an environment: one workspace, rebuilt from the task, changed by actions."""

from collections.abc import Mapping
from typing import NamedTuple, cast

from upturn.environments.environment import Info, Step
from upturn.environments.suite.family import Scenario
from upturn.environments.suite.tasks import compose
from upturn.environments.suite.verifier import progress
from upturn.environments.workspace import OperationError, Workspace, apply, changes, state_hash
from upturn.environments.workspace.safety import SOFT
from upturn.errors import WorldError
from upturn.records import Action, JsonValue, Observation, Task

HARD_REWARD = -1.0
"""For an action that violates a hard constraint."""


class _Judged(NamedTuple):
    """What is told of a workspace."""

    workspace: Workspace
    state_hash: str
    potential: float


class SuiteEnvironment:
    """Seven apps of one person. Holds one task at a time; never raises because of an action."""

    def __init__(self) -> None:
        self._scenario: Scenario | None = None
        self._workspace: Workspace | None = None
        self._is_over = False
        self._judged: _Judged | None = None

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Rebuilds the task's world; first the agent sees the instruction. Raises WorldError for foreign tasks."""
        scenario = compose(task)
        self._scenario, self._workspace, self._is_over = scenario, scenario.workspace, False
        self._judged = None
        return Observation(task.instruction), self._info({})

    def step(self, action: Action) -> Step:
        """Applies one action; a refused one changes nothing, costs 1 as ``error`` and is explained."""
        workspace = self._current()
        if self._is_over:
            return self._refused(OperationError("is_over", "the task is over; reset starts another"))
        try:
            effect = apply(workspace, action)
        except OperationError as error:
            return self._refused(error)
        self._workspace, self._is_over = effect.workspace, effect.is_final
        costs = {"soft": sum(effect.costs.values()), **effect.costs} if effect.costs else {}
        return Step(Observation(effect.text), 0.0, effect.is_final, False, self._info(costs))

    def state(self) -> Mapping[str, JsonValue]:
        """What differs from the initial workspace, and what the user was told last."""
        workspace = self._current()
        last = workspace.messages[-1] if workspace.messages else None
        message: JsonValue = {"kind": last.kind, "text": last.text} if last is not None else None
        return {"changes": changes(self._given().workspace, workspace), "message": message}

    def snapshot(self) -> object:
        """The state as a reference; workspaces are never changed in place."""
        return (self._current(), self._is_over)

    def restore(self, snapshot: object) -> None:
        """Goes back to a snapshot of the same task."""
        self._workspace, self._is_over = cast(tuple[Workspace, bool], snapshot)

    @property
    def workspace(self) -> Workspace:
        """As it is now; raises WorldError before the first ``reset``."""
        return self._current()

    def _current(self) -> Workspace:
        if self._workspace is None:
            raise WorldError("the suite has no task yet; call reset(task) first")
        return self._workspace

    def _given(self) -> Scenario:
        assert self._scenario is not None  # reset sets it with the workspace
        return self._scenario

    def _info(self, costs: Mapping[str, float]) -> Info:
        """Of the state as it is now."""
        workspace, judged = self._current(), self._judged
        if judged is None or judged.workspace is not workspace:
            given = self._given()
            changed = changes(given.workspace, workspace)
            reached = progress(given.goal, changed)
            self._judged = judged = _Judged(workspace, state_hash(workspace, changed), reached)
        return Info({}, costs, state_hash=judged.state_hash, potential=judged.potential)

    def _refused(self, error: OperationError) -> Step:
        costs = {"error": 1.0}
        if error.hard:
            costs["safety"] = 1.0
        if error.soft:
            costs |= {"soft": SOFT[error.soft], error.soft: SOFT[error.soft]}
        reward = HARD_REWARD if error.hard else 0.0
        return Step(Observation(str(error), error.code), reward, self._is_over, False, self._info(costs))
