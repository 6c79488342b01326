"""A toy environment and agents of known strength, named by import path; not a test module.

As a program it kills a run repeatedly: ``toy_desk.py RUN_DIR KILLS SEED`` (see ``test_kill.py``).
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


def _check(action: Action, expected: Mapping[str, int]) -> bool:
    return action.parameters.get("text") == str(expected["value"])


def _broken_check(action: Action, expected: Mapping[str, int]) -> bool:
    if action.operation == "answer":
        raise ArithmeticError("verifier failed")
    return False


def _fragile_check(action: Action, expected: Mapping[str, int]) -> bool:
    return int(str(action.parameters.get("text"))) == expected["value"]


def kit() -> OneStepKit:
    """Sums and products."""
    return one_step("desk", {"sums": _make_sum, "products": _make_product}, _check)


def unjudged_kit() -> OneStepKit:
    """The same with a verifier that fails on every answer."""
    return one_step("desk", {"sums": _make_sum, "products": _make_product}, _broken_check)


def fragile_kit() -> OneStepKit:
    """The same with a verifier that fails on answers that are no number."""
    return one_step("desk", {"sums": _make_sum, "products": _make_product}, _fragile_check)


class _BrokenDesk:
    """Fails at every step."""

    def reset(self, task: Task) -> tuple[Observation, Info]:
        return Observation(task.instruction), Info({}, {})

    def step(self, _action: Action) -> Step:
        raise RuntimeError("no desk")

    def state(self) -> dict[str, JsonValue]:
        return {}


class _BrokenKit:
    """The kit with an environment that fails at every step."""

    def __init__(self) -> None:
        desk = kit()
        self.name, self.families, self.verifier, self.tasks = desk.name, desk.families, desk.verifier, desk.tasks

    def environment(self, _task: Task) -> _BrokenDesk:
        return _BrokenDesk()


def broken_kit() -> _BrokenKit:
    """Sums and products at a desk that fails at every step."""
    return _BrokenKit()


class _CostlyJudge:
    """Fails on every third trajectory; of the two others the second is unsafe."""

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
    """Every verdict is a success."""

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


def mumbler(instruction: str, turns: Sequence[Turn], observation: Observation) -> Action:
    """Solves sums only, and answers products with a word."""
    solved = adder(instruction, turns, observation)
    return solved if instruction.startswith("add") else replace(solved, parameters={"text": "many"})


def refuser(_instruction: str, _turns: Sequence[Turn], _observation: Observation) -> str:
    """Solves nothing."""
    return "user.refuse text=no"


def crasher(_instruction: str, _turns: Sequence[Turn], _observation: Observation) -> str:
    """Raises an error."""
    raise RuntimeError("agent failed")


def config(
    agents: Sequence[str] = ("solver", "adder", "refuser"),
    load_caps: Mapping[str, int] | None = None,
    **sections: Mapping[str, Any],
) -> Config:
    """A configuration of callable agents, named like their functions, without training."""
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
    """Adds canary settings, which a configuration without training may not have."""
    return replace(plain, canary=CanarySettings(**canary))


def opened(run_dir: Path, settings: Config | None = None) -> AbstractContextManager[Context]:
    """The run in a folder, started or resumed."""
    return open_run(settings or config(), run_dir, "toy", NoProgress())


CANDIDATE = AgentVersion("adder", "better", "callable", model="toy_desk:solver")
"""Better than its incumbent, which solves sums only."""
GROUND = Override("a test", "to run the canary")


def whole_run(run_dir: Path) -> None:
    """Serving, readiness, held-out evaluation, a canary to its verdict, and serving again."""
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
    """Kills a child process after this time; False = it had finished before."""
    child = os.fork()
    if child == 0:
        whole_run(run_dir)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)  # the id of a finished child stays valid until waitpid
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main(run_dir: Path, kills: int, seed: int) -> None:
    """Kills the run repeatedly, then finishes it; prints the counts in the pool each time."""
    whole_run(run_dir.parent / "first" / run_dir.name)  # loads what is loaded at its first use
    started = time.monotonic()
    whole_run(run_dir.parent / "measure" / run_dir.name)
    typical = time.monotonic() - started
    rng = Random(seed)
    results = []
    killed = 0
    for _ in range(kills):
        killed += _killed_after(rng.uniform(0.1, 0.5) * typical, run_dir)
        results.append(counts(run_dir))
    whole_run(run_dir)
    sys.stdout.write(json.dumps({"killed": killed, "counts": [*results, counts(run_dir)]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
