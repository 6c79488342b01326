"""The contract of an environment and of its verifier (Gymnasium's shape, typed by our records)."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from upturn.records import Action, Evaluation, JsonValue, Observation, Task, Trajectory, record


@record
class Info:
    """What an environment reports beside the observation."""

    reward_components: Mapping[str, float]
    """What the reward of this step is the sum of, by name; empty = it has no parts."""
    cost_components: Mapping[str, float]
    """Safety and error costs of this step only."""
    faults: tuple[str, ...] = ()
    """Names of injected faults that fired in this step. Only with one may an action that is answered with an error
    have changed something."""
    state_hash: str = ""
    """Hash of the state after this step."""
    potential: float | None = None
    """How far the work has come in the state after this step, in [0, 1]: Φ, by whose differences sub-goals can be
    rewarded (``advantage.is_shaped``). Of the state alone, and 0 or the like at the start; agents are never shown
    it. None = the environment does not say."""
    sim_time: float = 0.0
    """Seconds of simulated time since ``reset``; never less than before. 0 throughout where time stands still."""


class Step(NamedTuple):
    """Result of one step; unpacks as Gymnasium's five-tuple."""

    observation: Observation
    reward: float
    """For this action, beside what the verifier's judgement of the whole attempt is worth: training adds both. 0
    where the verifier judges everything, as in errands."""
    is_terminated: bool
    is_truncated: bool
    info: Info


@runtime_checkable
class Environment(Protocol):
    """Where an agent acts. Holds one world at a time; the world is rebuilt from the task alone.

    One whose calls wait for something (a network, another process) says so by ``blocks = True`` in its class: see
    ``blocks``.
    """

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Builds the task's world and returns the first observation: the instruction as the agent sees it."""

    def step(self, action: Action) -> Step:
        """Applies an action. Whatever the agent sent, this returns; it never raises because of an action."""

    def state(self) -> Mapping[str, JsonValue]:
        """The whole state as JSON, enough for the verifier."""

    def snapshot(self) -> object:
        """A frozen copy of the state, cheap.

        Raises NotImplementedError where there is none to be had: attempts that go on from a state then repeat the
        actions that led to it. ``check_environment`` asks for one.
        """

    def restore(self, snapshot: object) -> None:
        """Goes back to a snapshot of the same task."""


def blocks(environment: Environment) -> bool:
    """Whether attempts call the environment in a thread, so that models go on writing for other attempts meanwhile.

    True where it has an attribute ``blocks`` that is true. All calls of one environment come from one thread, one
    after another, those of several environments at the same time; only its constructor runs on the event loop.
    """
    return getattr(environment, "blocks", False) is True


def is_potential(value: object) -> bool:
    """Whether an environment may give this as ``Info.potential``: a float in [0, 1], or None. A NaN is neither."""
    return value is None or (isinstance(value, float) and 0 <= value <= 1)


class Verifier(Protocol):
    """Judges a finished attempt. Pure: the same arguments give the same evaluation, now or years later."""

    name: str
    """``office/1``: name and version."""

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """Rebuilds the initial state from the task, reads ``trajectory.final_state`` and its turns."""
