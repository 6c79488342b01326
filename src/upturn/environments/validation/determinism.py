"""Determinism checks: the same actions give the same results again, next to another environment, and in another
process."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import get_args

from upturn.environments.environment import Environment
from upturn.environments.kit import EnvironmentKit, resolve_kit
from upturn.environments.oracle_protocol import content_hash, oracle_of, world_hash_of
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.environments.validation.case import MAX_TURNS, actions_of, make_case, random_policy
from upturn.environments.validation.schema_sampling import ParameterHistory
from upturn.errors import WorldError, error_text
from upturn.records import Split, Task, Trajectory, Turn, fields_json

_SEEDS = (0, 1, 2)
_SECONDS = 600
"""Timeout of the other process, far above its normal time."""


def replay_difference(kit: EnvironmentKit, task: Task, recorded: Trajectory) -> str:
    """The first difference when the recorded actions are replayed in a new environment; empty = none."""
    replayed = play(kit.environment(task), task, fixed_policy(actions_of(recorded)), max_turns=MAX_TURNS)
    return _difference(recorded, replayed)


def isolation_difference(
    kit: EnvironmentKit, first: tuple[Task, Trajectory], other: tuple[Task, Trajectory]
) -> str:
    """The first difference when two trajectories are interleaved in two environments, or run in turn in one.

    Each task comes with its trajectory in an environment of its own. Empty = no difference.
    """
    replays = [_Replay(kit.environment(task), task, recorded) for task, recorded in (first, other)]
    for index in range(max(len(replay.recorded.turns) for replay in replays)):
        for replay in replays:
            replay.take(index)
    for replay in replays:
        if difference := replay.difference():
            return f"next to another environment {replay.task.id!r} differs: {difference}"
    environment = replays[0].environment
    for task, recorded in (other, first):
        replayed = play(environment, task, fixed_policy(actions_of(recorded)), max_turns=MAX_TURNS)
    difference = _difference(first[1], replayed)
    return f"after another task in the same environment {first[0].id!r} differs: {difference}" if difference else ""


def digests(kit: EnvironmentKit, families: Sequence[str], tasks: int) -> dict[str, str]:
    """By family: a hash over tasks of both splits and three seeds, their initial worlds, and trajectories in them.

    Where the kit raises, its error is hashed instead.
    """
    by_family = {}
    for family in families:
        digest = hashlib.blake2b(digest_size=8)
        try:
            history = ParameterHistory()
            for seed, split in product(_SEEDS, get_args(Split)):
                for task in islice(kit.tasks(seed=seed, split=split, families=[family]), tasks):
                    for line in _records_of(kit, task, history):
                        digest.update(line.encode())
        except (Exception, SystemExit) as exc:  # noqa: BLE001  third-party code: a family that raises is reported separately
            digest.update(error_text(exc).encode())
        by_family[family] = digest.hexdigest()
    return by_family


def digests_in_subprocess(name: str, families: Sequence[str], tasks: int) -> dict[str, str]:
    """``digests`` of the kit of that name in a new process with a different hash seed.

    Raises WorldError where the process fails.
    """
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    paths = [path or str(Path.cwd()) for path in sys.path]
    command = [sys.executable, "-m", __name__, name, str(tasks), *families]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (subprocess.SubprocessError, OSError) as exc:
        lines = (getattr(exc, "stderr", None) or str(exc)).strip().splitlines()
        raise WorldError(
            f"{name!r} could not be checked in another process: {lines[-1] if lines else exc}"
        ) from exc
    result: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return result


def _records_of(kit: EnvironmentKit, task: Task, history: ParameterHistory) -> Iterator[str]:
    """Task, world, and the trajectories and evaluations of the oracle (if any) and of random actions, as text."""
    yield fields_json(task)
    yield content_hash(task, world_hash_of(kit, task))
    rng = Random(f"digest/{task.id}")
    case = make_case(kit, task, history, rng)
    for policy in (oracle_of(kit, task), random_policy(case, rng), fixed_policy(())):
        if policy is not None:
            trajectory = play(kit.environment(task), task, policy, max_turns=MAX_TURNS)
            yield fields_json(trajectory)
            yield fields_json(kit.verifier.verify(task, trajectory))


class _Replay:
    """A trajectory replayed one action at a time."""

    def __init__(self, environment: Environment, task: Task, recorded: Trajectory) -> None:
        self.environment, self.task, self.recorded = environment, task, recorded
        self._observation, self._info = environment.reset(task)
        self._turns: list[Turn] = []

    def take(self, index: int) -> None:
        """Takes the action of this index; nothing after the last one."""
        if index >= len(self.recorded.turns):
            return
        action = self.recorded.turns[index].action
        assert action is not None  # scripted policies record every action
        step = self.environment.step(action)
        self._turns.append(Turn(self._observation, "", action, step.reward, state_hash=self._info.state_hash))
        self._observation, self._info = step.observation, step.info

    def difference(self) -> str:
        """The first difference from the recorded trajectory; empty = none."""
        turns, state = tuple(self._turns), self.environment.state()
        replayed = replace(self.recorded, turns=turns, final_observation=self._observation, final_state=state)
        return _difference(self.recorded, replayed)


def _difference(left: Trajectory, right: Trajectory) -> str:
    """The first difference in observations, states or rewards; empty = none."""
    for index, (one, other) in enumerate(zip(left.turns, right.turns, strict=False)):
        if one.observation != other.observation:
            return f"action {index} is chosen on {one.observation.text!r:.80}, now {other.observation.text!r:.80}"
        if (one.state_hash, one.reward) != (other.state_hash, other.reward):
            return f"before action {index} the state has the hash {one.state_hash!r}, now {other.state_hash!r}"
    if len(left.turns) != len(right.turns):
        return f"{len(left.turns)} actions were taken, now {len(right.turns)}"
    if left.final_observation != right.final_observation:
        return f"it ends with {left.final_observation.text!r:.80}, now {right.final_observation.text!r:.80}"
    return "" if left.final_state == right.final_state else "it ends in another state"


def main(arguments: Sequence[str]) -> None:
    """Prints the digests of a kit by name, number of tasks and families, as JSON on the last line."""
    name, tasks, *families = arguments
    sys.stdout.write(json.dumps(digests(resolve_kit(name), families, int(tasks))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
