"""A family's success rates for the oracle, for doing nothing and for random actions."""

from itertools import islice
from random import Random

from upturn.environments import EnvironmentKit, ScriptedPolicy, fixed_policy, oracle_of, play, verify
from upturn.environments.validation import ParameterHistory, make_case, random_policy
from upturn.errors import WorldError
from upturn.records import Action, Task, record

RANDOM_TASKS = 2
"""Tasks of a family in which random actions are tried, in turn: finding valid actions takes a search."""


@record
class Floor:
    """Success rates on one family's training tasks."""

    family: str
    level: int
    count: int
    """Trajectories of each kind."""
    oracle: float
    """The shortest known solution."""
    nothing: float
    """Finishing at once."""
    random: float
    """Random actions with valid values; 0 if a search found none."""


def measure_floor(kit: EnvironmentKit, family: str, *, seed: int, count: int) -> Floor:
    """Success rates over ``count`` trajectories of each kind, or as many as the kit has tasks.

    The kit must have an oracle. Raises WorldError if it has no task of the family.
    """
    tasks = list(islice(kit.tasks(seed=seed, split="train", families=[family]), count))
    if not tasks:
        raise WorldError(f"kit {kit.name!r} gave none of {count} training tasks of {family!r}; it must give one")
    nothing = fixed_policy([Action("user", "finish")])
    return Floor(
        family,
        kit.families[family],
        len(tasks),
        oracle=sum(_is_solved(kit, task, _oracle(kit, task)) for task in tasks) / len(tasks),
        nothing=sum(_is_solved(kit, task, nothing) for task in tasks) / len(tasks),
        random=_random_rate(kit, tasks, seed=seed),
    )


def _oracle(kit: EnvironmentKit, task: Task) -> ScriptedPolicy:
    oracle = oracle_of(kit, task)
    assert oracle is not None  # the demo's kits have one
    return oracle


def _random_rate(kit: EnvironmentKit, tasks: list[Task], *, seed: int) -> float:
    """The success rate of random actions in the first tasks, played in turn as many times as there are tasks."""
    rng, solved, played = Random(f"floor/{seed}"), 0, 0
    for index, task in enumerate(tasks[:RANDOM_TASKS]):
        player = random_policy(make_case(kit, task, ParameterHistory(), rng), rng)
        if player is not None:
            repeats = len(tasks[index::RANDOM_TASKS])
            solved += sum(_is_solved(kit, task, player) for _ in range(repeats))
            played += repeats
    return solved / played if played else 0.0


def _is_solved(kit: EnvironmentKit, task: Task, player: ScriptedPolicy) -> bool:
    return verify(kit.verifier, task, play(kit.environment(task), task, player)).is_success
