"""Whether the same actions do the same: again, on a fresh environment, beside another one, in another process."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random

from upturn.environments.environment import Environment
from upturn.environments.kit import EnvironmentKit, resolve_kit
from upturn.environments.oracle_protocol import content_hash, oracle_of, world_of
from upturn.environments.scripted_policy import following, play
from upturn.environments.validation.case import MOST_TURNS, actions_of, make_case, random_player
from upturn.environments.validation.schema_sampling import Habits
from upturn.errors import WorldError, described
from upturn.records import Action, Split, Task, Trajectory, Turn, fields_json

_SPLITS: tuple[Split, ...] = ("train", "heldout")
_SEEDS = (0, 1, 2)
_SECONDS = 600
"""Another process may take so long; far more than it should."""


def replay_difference(kit: EnvironmentKit, task: Task, recorded: Trajectory) -> str:
    """Where the recorded actions lead elsewhere on a fresh environment; empty = nowhere."""
    again = play(kit.environment(task), task, following(actions_of(recorded)), max_turns=MOST_TURNS)
    return _difference(recorded, again)


def isolation_difference(
    kit: EnvironmentKit, first: tuple[Task, Trajectory], other: tuple[Task, Trajectory]
) -> str:
    """What differs when two attempts take turns in environments of their own, or follow each other in one.

    Each comes with its attempt alone. Empty = nothing differs.
    """
    left, right = kit.environment(first[0]), kit.environment(other[0])
    for (task, alone), played in zip((first, other), _interleaved((left, *first), (right, *other)), strict=True):
        if found := _difference(alone, played):
            return f"beside another environment {task.id!r} went another way: {found}"
    play(left, other[0], following(actions_of(other[1])), max_turns=MOST_TURNS)
    again = play(left, first[0], following(actions_of(first[1])), max_turns=MOST_TURNS)
    found = _difference(first[1], again)
    return f"after another task in the same environment {first[0].id!r} went another way: {found}" if found else ""


def digests(kit: EnvironmentKit, families: Sequence[str], tasks: int) -> dict[str, str]:
    """By family: a hash over tasks of both splits and three seeds, their beginnings, and what actions lead to.

    Where the kit breaks, what it raised counts instead.
    """
    found = {}
    for family in families:
        digest = hashlib.blake2b(digest_size=8)
        try:
            habits = Habits()
            for task in _sample(kit, family, tasks):
                for line in _account(kit, task, habits):
                    digest.update(line.encode())
        except Exception as exc:  # noqa: BLE001  # of foreign code: a family that breaks is reported by itself
            digest.update(described(exc).encode())
        found[family] = digest.hexdigest()
    return found


def digests_elsewhere(name: str, families: Sequence[str], tasks: int) -> dict[str, str]:
    """``digests`` of the kit of that name in a new process, whose hashes of texts are seeded otherwise.

    Raises WorldError where the process fails.
    """
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    paths = [path or str(Path.cwd()) for path in sys.path]
    command = [sys.executable, "-m", __name__, name, str(tasks), *families]
    setting = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        done = subprocess.run(command, env=setting, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (subprocess.SubprocessError, OSError) as exc:
        told = (getattr(exc, "stderr", None) or str(exc)).strip().splitlines()
        raise WorldError(f"{name!r} could not be tried in another process: {told[-1] if told else exc}") from exc
    read: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return read


def _sample(kit: EnvironmentKit, family: str, tasks: int) -> Iterator[Task]:
    for seed in _SEEDS:
        for split in _SPLITS:
            yield from islice(kit.tasks(seed=seed, split=split, families=[family]), tasks)


def _account(kit: EnvironmentKit, task: Task, habits: Habits) -> Iterator[str]:
    """Everything that an attempt tells: of the oracle where there is one, and of random actions."""
    yield fields_json(task)
    yield content_hash(task, world_of(kit, task))
    rng = Random(f"digest/{task.id}")
    case = make_case(kit, task, habits, rng)
    for player in (oracle_of(kit, task), random_player(case, rng), following(())):
        if player is not None:
            trajectory = play(kit.environment(task), task, player, max_turns=MOST_TURNS)
            yield fields_json(trajectory)
            yield fields_json(kit.verifier.verify(task, trajectory))


def _interleaved(*runs: tuple[Environment, Task, Trajectory]) -> list[Trajectory]:
    """Both attempts again, one action of each at a time."""
    waiting = [_Turns(environment, task) for environment, task, _ in runs]
    for place in range(max(len(recorded.turns) for _, _, recorded in runs)):
        for each, (_, _, recorded) in zip(waiting, runs, strict=True):
            if place < len(recorded.turns):
                each.take(recorded.turns[place].action)
    return [each.done(recorded) for each, (_, _, recorded) in zip(waiting, runs, strict=True)]


class _Turns:
    """An attempt that is made one action at a time."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self._environment = environment
        self._observation, self._info = environment.reset(task)
        self._turns: list[Turn] = []

    def take(self, action: Action | None) -> None:
        """The next action."""
        assert action is not None  # players' actions are
        step = self._environment.step(action)
        self._turns.append(Turn(self._observation, "", action, step.reward, state_hash=self._info.state_hash))
        self._observation, self._info = step.observation, step.info

    def done(self, like: Trajectory) -> Trajectory:
        """What came of it."""
        return Trajectory(
            like.id,
            like.task_id,
            like.agent_version,
            tuple(self._turns),
            self._observation,
            like.outcome,
            "rendered",
            final_state=self._environment.state(),
        )


def _difference(left: Trajectory, right: Trajectory) -> str:
    """The first thing that differs in what was seen and done; empty = nothing."""
    for place, (one, other) in enumerate(zip(left.turns, right.turns, strict=False)):
        if one.observation != other.observation:
            return f"action {place} is chosen on {one.observation.text!r:.80}, now {other.observation.text!r:.80}"
        if (one.state_hash, one.reward) != (other.state_hash, other.reward):
            return f"before action {place} the state has the hash {one.state_hash!r}, now {other.state_hash!r}"
    if len(left.turns) != len(right.turns):
        return f"{len(left.turns)} actions were taken, now {len(right.turns)}"
    if left.final_observation != right.final_observation:
        return f"it ends with {left.final_observation.text!r:.80}, now {right.final_observation.text!r:.80}"
    return "" if left.final_state == right.final_state else "it ends in another state"


def main(arguments: Sequence[str]) -> None:
    """Prints the digests of a kit by its name, for so many tasks of these families, as JSON on the last line."""
    name, tasks, *families = arguments
    sys.stdout.write(json.dumps(digests(resolve_kit(name), families, int(tasks))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
