"""The environment of one rollout, with the turns taken in it so far.

An agent that acts turn by turn takes each turn with ``step``. A program, which acts by itself, writes a turn
(``note``) with each of its completions, and steps the environment within one or after it.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import TypeVar

from upturn.agents.agent import Reply
from upturn.agents.call_thread import CallThread
from upturn.config import Limits
from upturn.environments import (
    Environment,
    Info,
    ProgramEnvironment,
    Step,
    executed_action,
    is_blocking,
    is_potential,
)
from upturn.errors import WorldError
from upturn.records import ModelUsage, Observation, Outcome, Task, Turn
from upturn.rewards.calls import times_made

ResultT = TypeVar("ResultT")
FAILED_OBSERVATION = Observation(text="", code="environment_error")


class Stage:
    """The mutable state of one rollout apart from its tokens. Single use."""

    def __init__(self, task: Task, limits: Limits, *, fixes_sampling: bool = False) -> None:
        """``fixes_sampling``: see ``Setting``."""
        self.task = task
        self.limits = limits
        self.fixes_sampling = fixes_sampling
        self.turns: list[Turn] = []
        self.visible_turns: list[Turn] = []
        """Copies of ``turns`` for the agent, without potentials, which agents never see."""
        self.observation = FAILED_OBSERVATION
        """What the next turn answers."""
        self.state_hash = ""
        self.potential: float | None = None
        self.external = ModelUsage()
        """Of calls outside the rollout's own model."""
        self.outcome: Outcome | None = None
        """How the environment ended the task; None = it goes on."""
        self._environment: Environment | None = None
        self._thread: CallThread | None = None
        """Calls a blocking environment; None = it is called on the event loop."""

    @property
    def environment(self) -> Environment:
        """The environment, from ``open`` on."""
        assert self._environment is not None
        return self._environment

    async def open(self, environment: Environment) -> None:
        """Resets the environment to the task. Raises what the environment raises."""
        self._environment = environment
        self._thread = CallThread("upturn-environment") if is_blocking(environment) else None
        observation, info = await self.call(lambda: environment.reset(self.task))
        self.potential = potential_of(info)
        self.observation, self.state_hash = observation, info.state_hash

    async def call(self, call: Callable[[], ResultT]) -> ResultT:
        """Calls the environment, on the event loop or in its thread."""
        return call() if self._thread is None else await self._thread.run(call)

    def close(self) -> None:
        """Ends the environment's thread, and removes the folder of a program."""
        if isinstance(self._environment, ProgramEnvironment):
            self._environment.close()
        if self._thread is not None:
            self._thread.end()

    def note(self, reply: Reply) -> int:
        """Adds a turn that does nothing to the environment; returns its index."""
        turn = self._turn(reply)
        self.visible_turns.append(copy_turn(turn))
        self.turns.append(turn)
        return len(self.turns) - 1

    def amend(self, index: int, turn: Turn) -> None:
        """Replaces a turn."""
        self.turns[index] = turn
        self.visible_turns[index] = copy_turn(turn)

    async def step(self, reply: Reply, index: int | None = None) -> Outcome | None:
        """Executes the reply's action; returns how that ended the task, None if it goes on.

        ``index``: of the noted turn that the action belongs to; None = it is a turn of its own. Raises what the
        environment raises; then the turn is the last one, and the observation that of a failed environment.
        """
        action = executed_action(reply.action, reply.refusal)
        return await self.take(reply, lambda: self.environment.step(action), index)

    async def take(self, reply: Reply, act: Callable[[], Step], index: int | None = None) -> Outcome | None:
        """As ``step``, for any call of the environment that returns a step."""
        if index is None:
            turn = self._turn(reply)
        else:
            turn = self.turns[index]
            if reply.action is not None or reply.refusal:
                turn = replace(turn, action=reply.action, refusal=reply.refusal, repairs=reply.repairs)
        try:
            observation, reward, is_terminated, is_truncated, info = await self.call(act)
            potential = potential_of(info)
        except (Exception, SystemExit):
            self._place(turn, index)
            self.observation = FAILED_OBSERVATION
            raise
        costs = {**turn.costs}
        for name, cost in info.cost_components.items():
            costs[name] = costs.get(name, 0.0) + cost
        self._place(replace(turn, reward=turn.reward + float(reward), costs=costs), index)
        self.observation, self.state_hash, self.potential = observation, info.state_hash, potential
        if is_terminated:
            self.outcome = "finished"
        elif is_truncated or self._is_looping():
            self.outcome = "step_limit"
        return self.outcome

    def _is_looping(self) -> bool:
        most = self.limits.max_equal_calls
        return most is not None and times_made(self.turns, self.observation) >= most

    def _place(self, turn: Turn, index: int | None) -> None:
        if index is not None:
            self.amend(index, turn)
            return
        self.visible_turns.append(copy_turn(turn))
        self.turns.append(turn)

    def _turn(self, reply: Reply) -> Turn:
        self.external = self.external.plus(reply.usage)
        return Turn(
            self.observation,
            reply.text,
            reply.action,
            state_hash=self.state_hash,
            potential=self.potential,
            call=reply.call,
            repairs=reply.repairs,
            refusal=reply.refusal,
            message=reply.message,
            usage=None if reply.usage == ModelUsage() else reply.usage,
        )


def potential_of(info: Info) -> float | None:
    """The potential; raises WorldError for an invalid one, which would shape rewards wrongly."""
    if not is_potential(info.potential):
        raise WorldError(
            f"the environment gave the potential {info.potential!r}; potentials are floats in [0, 1], or None"
        )
    return info.potential


def copy_turn(turn: Turn) -> Turn:
    """A copy for the agent, without the potential."""
    action = turn.action
    if action is not None:
        action = replace(action, parameters=deepcopy(action.parameters))
    return replace(turn, action=action, costs=dict(turn.costs), potential=None)
