"""What a family's verifier gives to perfect work, to no work and to random work."""

from itertools import islice
from random import Random

from upturn.environments import EnvironmentKit, ScriptedPolicy, fixed_policy, oracle_of, play, verify
from upturn.environments.validation import ParameterHistory, make_case, random_policy
from upturn.errors import WorldError
from upturn.records import Action, Task, record

SCOUTED = 2
"""Tasks of a family in which random actions are tried, by turns: it takes a search to find what is valid."""


@record
class Floor:
    """Shares of attempts at one family's training tasks that the verifier calls a success."""

    family: str
    level: int
    count: int
    """Attempts of each kind."""
    oracle: float
    """The shortest known solution."""
    nothing: float
    """Says that it is done at once."""
    random: float
    """Random actions with values that they may take; 0 where a search found none."""


def measure_floor(kit: EnvironmentKit, family: str, *, seed: int, count: int) -> Floor:
    """Of ``count`` attempts of each kind, or as many as the kit has tasks; the kit must know an oracle.

    Raises WorldError where it has no task of the family.
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
    found = oracle_of(kit, task)
    assert found is not None  # the demo's kits know one
    return found


def _random_rate(kit: EnvironmentKit, tasks: list[Task], *, seed: int) -> float:
    """The first tasks are attempted by turns, as many times together as there are tasks."""
    rng, solved, tried = Random(f"floor/{seed}"), 0, 0
    scouted = tasks[:SCOUTED]
    for place, task in enumerate(scouted):
        player = random_policy(make_case(kit, task, ParameterHistory(), rng), rng)
        if player is not None:
            times = len(range(place, len(tasks), len(scouted)))
            solved += sum(_is_solved(kit, task, player) for _ in range(times))
            tried += times
    return solved / tried if tried else 0.0


def _is_solved(kit: EnvironmentKit, task: Task, player: ScriptedPolicy) -> bool:
    return verify(kit.verifier, task, play(kit.environment(task), task, player)).is_success
