"""The contracts of an environment (Gymnasium's shape, typed by our records) and of its verifier."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from upturn.errors import error_text
from upturn.records import (
    Action,
    Evaluation,
    GateResult,
    JsonValue,
    Observation,
    Task,
    Trajectory,
    fields_json,
    from_fields,
    record,
)
from upturn.rewards import evaluation_id


@record
class Info:
    """Information about a step in addition to its observation."""

    reward_components: Mapping[str, float]
    """Terms of this step's reward by name; empty = none."""
    cost_components: Mapping[str, float]
    """Safety and error costs of this step only."""
    faults: tuple[str, ...] = ()
    """Names of injected faults that fired in this step. An action that returned an error may have changed the state
    only if there are any."""
    state_hash: str = ""
    """Hash of the state after this step."""
    potential: float | None = None
    """Progress of the state after this step, in [0, 1]: the potential Φ of reward shaping
    (``advantage.is_shaped``). A function of the state alone, about 0 at the start; never shown to agents. None =
    the environment has no potential."""
    sim_time: float = 0.0
    """Seconds of simulated time since ``reset``; never decreases. 0 throughout where time is not simulated."""


class Step(NamedTuple):
    """Result of one step; unpacks as Gymnasium's five-tuple."""

    observation: Observation
    reward: float
    """For this action; training adds it to the verifier's reward for the whole trajectory. 0 where the verifier
    grades everything, as in the office."""
    is_terminated: bool
    is_truncated: bool
    info: Info


@runtime_checkable
class Environment(Protocol):
    """Where an agent acts. Holds one world at a time; the world is rebuilt from the task alone.

    A class whose calls wait (for a network, another process) sets ``blocks = True``: see ``is_blocking``.
    """

    def reset(self, task: Task) -> tuple[Observation, Info]:
        """Builds the task's world and returns the first observation: the instruction as the agent sees it."""

    def step(self, action: Action) -> Step:
        """Applies an action. Never raises because of the action, whatever the agent sent."""

    def state(self) -> Mapping[str, JsonValue]:
        """The whole state as JSON, enough for the verifier."""

    def snapshot(self) -> object:
        """A frozen copy of the state, cheap.

        Raises NotImplementedError where this is impossible: rollouts that branch from a state then replay the
        actions that led to it. ``check_environment`` requires snapshots.
        """

    def restore(self, snapshot: object) -> None:
        """Restores a snapshot of the same task."""


def is_blocking(environment: Environment) -> bool:
    """Whether rollouts call the environment in a thread, so that models keep generating for other rollouts.

    True where its attribute ``blocks`` is True. One environment is called from one thread only; several
    environments run concurrently; only the constructor runs on the event loop.
    """
    return getattr(environment, "blocks", False) is True


def is_potential(value: object) -> bool:
    """Whether this is a valid ``Info.potential``: a float in [0, 1], or None. NaN is neither."""
    return value is None or (isinstance(value, float) and 0 <= value <= 1)


class Verifier(Protocol):
    """Grades a finished trajectory. Pure: the same arguments give the same evaluation, now or years later."""

    name: str
    """``office/1``: name and version."""

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        """Rebuilds the initial state from the task, reads ``trajectory.final_state`` and its turns."""


@runtime_checkable
class BatchVerifier(Protocol):
    """A Verifier that is faster on many trajectories at once, such as one with a model."""

    name: str

    def verify_all(self, finished: Sequence[tuple[Task, Trajectory]]) -> list[Evaluation]:
        """The evaluations, in order, each as ``verify`` gives it; those that fail are ``missing``."""


def verify_all(verifier: Verifier, finished: Sequence[tuple[Task, Trajectory]]) -> list[Evaluation]:
    """The evaluation of each trajectory, in order, as ``verify`` gives it; at once with a ``BatchVerifier``, whose
    own errors are raised."""
    if isinstance(verifier, BatchVerifier):
        return verifier.verify_all(finished)
    return [verify(verifier, task, trajectory) for task, trajectory in finished]


def verify(verifier: Verifier, task: Task, trajectory: Trajectory) -> Evaluation:
    """The verifier's evaluation, passed through its stored form.

    Gives a ``missing`` evaluation with the reason where the verifier raises or its evaluation cannot be stored.
    """
    try:
        return from_fields(Evaluation, fields_json(verifier.verify(task, trajectory)))
    except (Exception, SystemExit) as exc:  # noqa: BLE001  a broken verifier is recorded as missing; its siblings continue
        gate = GateResult("judged", False, error_text(exc))
        name, identity = verifier.name, evaluation_id(verifier.name, trajectory.id)
        return Evaluation(identity, task.id, trajectory.id, name, "missing", (gate,), {}, {}, None)
