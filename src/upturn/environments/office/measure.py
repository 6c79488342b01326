"""The figures of a trajectory for the metrics of suites."""

from typing import NamedTuple

from upturn.environments.office.partial_credit import Passage, passage
from upturn.environments.office.recovery import recovery
from upturn.environments.office.tasks import compose, family_named
from upturn.records import Evaluation, Task, Trajectory


class Measure(NamedTuple):
    """Figures of one trajectory."""

    level: int
    family: str
    is_success: bool
    apps: int
    """Number of apps that the task requires, without ``user``."""
    steps: int
    shortest: int
    """Steps of the shortest known solution."""
    violations: int
    """Actions that a hard constraint refused."""
    passage: Passage
    faults: int
    """Recoverable faults of the trajectory."""
    recovered: int
    """Recovered faults, as in ``recovery``."""


def measure(task: Task, trajectory: Trajectory, evaluation: Evaluation) -> Measure:
    """The trajectory's figures. ``evaluation``: the office verifier's; a missing one is no success."""
    draft = compose(task).draft
    faults, recovered = recovery(trajectory, task)
    return Measure(
        task.level,
        task.family,
        evaluation.is_success,
        len(family_named(task.family).apps),
        len(trajectory.turns),
        len(draft.oracle),
        sum(bool(turn.costs.get("safety")) for turn in trajectory.turns),
        passage(task, trajectory, evaluation),
        faults,
        recovered,
    )
