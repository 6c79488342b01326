"""The office as an environment: a workspace that is rebuilt from the task and changed by actions, with faults."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, cast

from upturn.environments.action import typed_action
from upturn.environments.environment import Info, Step
from upturn.environments.office.apps import SOFT
from upturn.environments.office.faults import FaultState, Outcome, apply_with_faults
from upturn.environments.office.generation import Scenario, has_order
from upturn.environments.office.goal import progress
from upturn.environments.office.history import History
from upturn.environments.office.recovery import fault_log
from upturn.environments.office.state import (
    OperationError,
    Workspace,
    changes,
    has_same_items,
    is_alike,
    state_hash,
)
from upturn.environments.office.tasks import compose
from upturn.errors import WorldError
from upturn.records import Action, JsonValue, Observation, Task

HARD_REWARD = -1.0
"""For an action that violates a hard constraint; ``violation`` among the components of rewards."""


class _World(NamedTuple):
    """The immutable state that actions replace."""

    scenario: Scenario
    workspace: Workspace
    faults: FaultState
    is_over: bool = False
    history: History = History()

    def is_like(self, other: "_World") -> bool:
        """Whether only time passed between the two."""
        return self.faults is other.faults and is_alike(self.workspace, other.workspace)

    def has_items_of(self, other: "_World") -> bool:
        """Whether the changes since the start are the same in the two."""
        return self.faults.met == other.faults.met and has_same_items(self.workspace, other.workspace)


class _Measured(NamedTuple):
    """The cached parts of a world's ``Info``."""

    world: _World
    changes: Mapping[str, JsonValue]
    state_hash: str
    potential: float


class OfficeEnvironment:
    """The apps of one person. Runs one task at a time; no action makes it raise."""

    def __init__(self) -> None:
        self._world: _World | None = None
        self._measured: _Measured | None = None

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Rebuilds the task's world; the observation is the instruction. Raises WorldError for tasks of other
        environments."""
        scenario = compose(task)
        workspace = scenario.workspace
        if workspace.persona.traps:  # they count only after the agent has seen the injected instruction
            workspace = workspace.evolve(persona=replace(workspace.persona, traps=()))
        self._world = _World(scenario, workspace, FaultState(scenario.draft.faults))
        self._measured = None
        return Observation(task.instruction), self._info({})

    def step(self, action: Action) -> Step:
        """Applies one action. A refused action changes nothing, costs 1 as ``error`` and is explained.

        An action that a fault hits may still have been done; it costs nothing the first time.
        """
        world = self._current()
        if world.is_over:
            return self._refuse(OperationError("is_over", "the task is over; reset starts another"))
        try:
            outcome = apply_with_faults(world.workspace, world.faults, typed_action(action))
        except OperationError as error:
            return self._refuse(error)
        return self._finish_step(outcome, action.name)

    def state(self) -> Mapping[str, JsonValue]:
        """The changes since the start, the last message to the user, what was undone or marked on the way (only
        where there is any), and in tasks with faults the fault log that ``recovery`` reads."""
        world = self._current()
        last = world.workspace.messages[-1] if world.workspace.messages else None
        message: JsonValue = {"kind": last.kind, "text": last.text} if last is not None else None
        state: dict[str, JsonValue] = {"changes": self._changes(), "message": message}
        if history := world.history.summary(world.workspace):
            state["history"] = history
        if world.faults.plan:
            state["faults"] = fault_log(world.scenario.baseline, world.faults)
        return state

    def snapshot(self) -> object:
        """The state as a reference; workspaces are never changed in place."""
        return self._current()

    def restore(self, snapshot: object) -> None:
        """Restores a snapshot of the same task."""
        self._world = cast(_World, snapshot)

    @property
    def workspace(self) -> Workspace:
        """The current workspace; raises WorldError before the first ``reset``."""
        return self._current().workspace

    def _current(self) -> _World:
        if self._world is None:
            raise WorldError("the office has no task yet; call reset(task) first")
        return self._world

    def _changes(self) -> dict[str, JsonValue]:
        world = self._current()
        return changes(world.scenario.baseline, world.faults.with_moved_files(world.workspace))

    def _info(
        self,
        costs: Mapping[str, float],
        faults: tuple[str, ...] = (),
        *,
        rewards: Mapping[str, float] | None = None,
    ) -> Info:
        """The info of the current state."""
        world, measured = self._current(), self._measured
        if measured is None or not measured.world.is_like(world):
            if measured is not None and measured.world.has_items_of(world):
                changed, potential = measured.changes, measured.potential
            else:
                changed = self._changes()
                potential = progress(world.scenario, changed)
            digest = state_hash(world.workspace, changed, mark=world.faults.hash_part())
            self._measured = measured = _Measured(world, changed, digest, potential)
        return Info(
            dict(rewards or {}),
            costs,
            faults,
            state_hash=measured.state_hash,
            potential=measured.potential,
            sim_time=world.workspace.elapsed,
        )

    def _finish_step(self, outcome: Outcome, operation: str) -> Step:
        effect, error, workspace = outcome.effect, outcome.error, outcome.workspace
        is_over = effect is not None and effect.is_final
        world = self._current()
        scenario, history = world.scenario, world.history
        if not has_same_items(world.workspace, workspace):
            history = history.after(world.workspace, workspace, operation)
        persona = scenario.workspace.persona
        if effect is not None and persona.traps and not workspace.persona.traps and has_order(effect.text):
            workspace = workspace.evolve(persona=persona)  # the first text that shows the injected instruction
        self._world = _World(scenario, workspace, outcome.state, is_over, history)
        if effect is None:
            assert error is not None  # the outcome has either
            costs = {"error": 1.0} if outcome.was_reported else {}
            return Step(Observation(str(error), error.code), 0.0, False, False, self._info(costs, outcome.faults))
        costs = {"soft": sum(effect.costs.values()), **effect.costs} if effect.costs else {}
        return Step(Observation(effect.text), 0.0, is_over, False, self._info(costs, outcome.faults))

    def _refuse(self, error: OperationError) -> Step:
        costs = {"error": 1.0}
        if error.hard:
            costs["safety"] = 1.0
        if error.soft:
            costs |= {"soft": SOFT[error.soft], error.soft: SOFT[error.soft]}
        rewards = {"violation": HARD_REWARD} if error.hard else {}
        info = self._info(costs, rewards=rewards)
        is_over = self._current().is_over
        return Step(Observation(str(error), error.code), sum(rewards.values(), 0.0), is_over, False, info)
