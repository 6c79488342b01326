"""A custom kit in an importable module, and a task of an office whose apps fail."""

import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from upturn.environments import oracle_of, play, resolve_kit
from upturn.models import write_call
from upturn.records import Task

TWICE = """
import threading
from upturn.environments import one_step
from upturn.environments.one_step import OneStepEnvironment
def make(rng):
    number = rng.randint(1, 10_000)
    return f"twice {number}?", {"answer": str(2 * number)}
def check(action, expected):
    return action.parameters.get("text") == expected["answer"]
def broken(action, expected):
    raise ValueError("no verifier today")
def kit():
    return one_step("twice", make, check, version=7)
def other():
    return one_step("twice", make, check, version=7)
def unjudged():
    return one_step("unjudged", make, broken)

class Blocking(OneStepEnvironment):
    blocks = True
    threads = []

    def _told(self):
        self.threads.append(threading.current_thread())

    def reset(self, task):
        self._told()
        return super().reset(task)

    def step(self, action):
        self._told()
        return super().step(action)

    def state(self):
        self._told()
        return super().state()

def blocking():
    made = one_step("blocking", make, check)
    made.environment = lambda task: Blocking(made._cases)
    return made
"""


@pytest.fixture
def twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with kits that describe no tools: ``kit``, ``other``, ``unjudged``, ``blocking``."""
    name = "twice_for_adapters"
    (tmp_path / f"{name}.py").write_text(TWICE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


class Interrupted(NamedTuple):
    """The oracle of an office with app faults."""

    task: Task
    """The family's first task with seed 0."""
    calls: list[str]
    faults: list[list[str]]
    """The faults of each call."""


@pytest.fixture
def interrupted() -> Interrupted:
    """An app is unavailable three times."""
    kit = resolve_kit("office")
    task = next(iter(kit.tasks(seed=0, split="train", families=["mail_two_hops_interrupted"])))
    oracle = oracle_of(kit, task)
    assert oracle is not None
    actions = [turn.action for turn in play(kit.environment(task), task, oracle).turns]
    calls = [write_call(action) for action in actions if action is not None]
    return Interrupted(task, calls, [[], *[["unavailable"]] * 3, *[[]] * (len(calls) - 4)])
