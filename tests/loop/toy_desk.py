"""A toy environment and agents of known strength, found by import path; not a test module.

Run as a program it lets a run be killed: ``toy_desk.py RUN_DIR KILLS SEED`` (see ``test_kill.py``).
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from upturn.config import CanarySettings, Config
from upturn.deployment.release import Override
from upturn.environments import Info, Step, one_step
from upturn.environments.one_step import OneStepKit
from upturn.errors import StoreError
from upturn.loop.cycle import check_readiness, release, serve
from upturn.loop.evaluation.evaluate import evaluate_heldout
from upturn.loop.progress import NoProgress
from upturn.loop.run.context import Context, open_run
from upturn.loop.trainers.registry import parse_full_config
from upturn.pool import Pool
from upturn.records import Action, AgentVersion, Evaluation, JsonValue, Observation, Task, Trajectory, Turn


def _make_sum(rng: Random) -> tuple[str, dict[str, int]]:
    left, right = rng.randint(0, 999), rng.randint(0, 999)
    return f"add {left} {right}", {"value": left + right}


def _make_product(rng: Random) -> tuple[str, dict[str, int]]:
    left, right = rng.randint(0, 999), rng.randint(0, 999)
    return f"multiply {left} {right}", {"value": left * right}


def _check(action: Action, right: Mapping[str, int]) -> bool:
    return action.parameters.get("text") == str(right["value"])


def _broken_check(action: Action, right: Mapping[str, int]) -> bool:
    if action.operation == "answer":
        raise ArithmeticError("verifier failed")
    return False


def kit() -> OneStepKit:
    """Sums and products."""
    return one_step("desk", {"sums": _make_sum, "products": _make_product}, _check)


def unjudged_kit() -> OneStepKit:
    """The same with a judge that breaks on every answer."""
    return one_step("desk", {"sums": _make_sum, "products": _make_product}, _broken_check)


class _BrokenDesk:
    """Breaks whatever is done to it."""

    def reset(self, task: Task) -> tuple[Observation, Info]:
        return Observation(task.instruction), Info({}, {})

    def step(self, _action: Action) -> Step:
        raise RuntimeError("no desk")

    def state(self) -> dict[str, JsonValue]:
        return {}


class _BrokenKit:
    """The kit with an environment that breaks at every step."""

    def __init__(self) -> None:
        whole = kit()
        self.name, self.families, self.verifier = whole.name, whole.families, whole.verifier
        self.tasks = whole.tasks

    def environment(self, _task: Task) -> _BrokenDesk:
        return _BrokenDesk()


def broken_kit() -> _BrokenKit:
    """Sums and products at a desk that breaks."""
    return _BrokenKit()


class _CostlyJudge:
    """Breaks on every third attempt, finds no error in the next and calls the one after that unsafe."""

    name = "costly/1"

    def __init__(self) -> None:
        self.calls = 0

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        self.calls += 1
        if self.calls % 3 == 0:
            raise ArithmeticError("verifier failed")
        costs = {"error": 0.0, "safety": float(self.calls % 3 == 2)}
        return Evaluation(f"costly-{self.calls}", task.id, trajectory.id, self.name, "success", (), {}, costs, 1.0)


def costly_judge() -> _CostlyJudge:
    """For ``environment.verifier``."""
    return _CostlyJudge()


class _MildJudge:
    """Calls everything a success."""

    name = "mild/1"

    def verify(self, task: Task, trajectory: Trajectory) -> Evaluation:
        return Evaluation(f"mild-{trajectory.id}", task.id, trajectory.id, self.name, "success", (), {}, {}, 1.0)


def mild_judge() -> _MildJudge:
    """For ``environment.verifier``."""
    return _MildJudge()


def _answer(value: int) -> Action:
    return Action("user", "answer", {"text": str(value)})


def solver(instruction: str, _turns: Sequence[Turn], _observation: Observation) -> Action:
    """Solves everything."""
    word, left, right = instruction.split()
    return _answer(int(left) + int(right) if word == "add" else int(left) * int(right))


def adder(instruction: str, _turns: Sequence[Turn], _observation: Observation) -> Action:
    """Solves sums only."""
    _, left, right = instruction.split()
    return _answer(int(left) + int(right))


def refuser(_instruction: str, _turns: Sequence[Turn], _observation: Observation) -> str:
    """Solves nothing."""
    return "user.refuse text=no"


def crasher(_instruction: str, _turns: Sequence[Turn], _observation: Observation) -> str:
    """Breaks."""
    raise RuntimeError("agent failed")


def config(
    agents: Sequence[str] = ("solver", "adder", "refuser"),
    load_caps: Mapping[str, int] | None = None,
    **sections: Mapping[str, Any],
) -> Config:
    """A configuration of callable agents, named like their functions, that trains nothing."""
    caps = load_caps or {}
    settings: dict[str, Any] = {
        "run": {"threads": 1},
        "agents": [
            {
                "name": name,
                "kind": "callable",
                "import_path": f"toy_desk:{name}",
                **({"load_cap": caps[name]} if name in caps else {}),
            }
            for name in agents
        ],
        "environment": {"name": "toy_desk:kit", "max_turns": 2},
        "tasks": {"count": 96, "heldout_count": 31},
        "loop": {"train": []},
    }
    for name, section in sections.items():
        settings[name] = {**settings.get(name, {}), **section}
    return parse_full_config(settings)


def with_canary(plain: Config, **canary: Any) -> Config:
    """A canary's settings, which a configuration that trains nothing has no use for."""
    return replace(plain, canary=CanarySettings(**canary))


def opened(run_dir: Path, settings: Config | None = None) -> AbstractContextManager[Context]:
    """The run in a folder, begun or gone on with."""
    return open_run(settings or config(), run_dir, "toy", NoProgress())


CANDIDATE = AgentVersion("adder", "better", "callable", model="toy_desk:solver")
"""Better than its incumbent, which solves sums only."""
GROUND = Override("a test", "to see the canary at work")


def whole_run(run_dir: Path) -> None:
    """Serving, looking, examining, a canary to its verdict, and serving again."""
    settings = with_canary(config(("adder", "refuser")), stages=(0.5, 1.0))
    with opened(run_dir, settings) as context:
        incumbent = context.router.registry.served("adder").incumbent
        serve(context, "serve", 96)
        check_readiness(context, "readiness")
        evaluate_heldout(context, "heldout", incumbent)
        release(context, "release", (incumbent, CANDIDATE), GROUND)
        serve(context, "serve-after", 48)
        context.finish()


def counts(run_dir: Path) -> dict[str, int]:
    """Rows in the pool by kind; empty before there is one."""
    try:
        with Pool.open(run_dir / "pool.db", read_only=True) as pool:
            return {
                "decisions": sum(1 for _ in pool.decisions(tenant="default")),
                "trajectories": sum(1 for _ in pool.trajectories(tenant="default")),
                "tasks": sum(1 for _ in pool.tasks(tenant="default")),
            }
    except StoreError:
        return {}


def _killed_after(seconds: float, run_dir: Path) -> bool:
    """Lets a child process run for so long; True: it was killed at its work, False: it had finished."""
    child = os.fork()
    if child == 0:
        whole_run(run_dir)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)  # a child that ended waits to be asked for its status: the id is still its own
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main(run_dir: Path, kills: int, seed: int) -> None:
    """Kills the run again and again, then lets it finish; prints what was in the pool each time."""
    started = time.monotonic()
    whole_run(run_dir.parent / "measure" / run_dir.name)
    typical = time.monotonic() - started
    rng = Random(seed)
    found = []
    killed = 0
    for _ in range(kills):
        killed += _killed_after(rng.uniform(0.1, 0.5) * typical, run_dir)
        found.append(counts(run_dir))
    whole_run(run_dir)
    sys.stdout.write(json.dumps({"killed": killed, "counts": [*found, counts(run_dir)]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
