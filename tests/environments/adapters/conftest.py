"""A kit of somebody's own, in a module that can be imported by name."""

import sys
from pathlib import Path

import pytest

TWICE = """
import threading
from upturn.environments import one_step
from upturn.environments.one_step import OneStepEnvironment
def make(rng):
    number = rng.randint(1, 10_000)
    return f"twice {number}?", {"answer": str(2 * number)}
def right(action, right):
    return action.parameters.get("text") == right["answer"]
def broken(action, right):
    raise ValueError("no judge today")
def kit():
    return one_step("twice", make, right, version=7)
def other():
    return one_step("twice", make, right, version=7)
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
    made = one_step("blocking", make, right)
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
