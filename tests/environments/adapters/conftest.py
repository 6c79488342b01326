"""A kit of somebody's own, in a module that can be imported by name."""

import sys
from pathlib import Path

import pytest

TWICE = """
from upturn.environments import one_step
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
"""


@pytest.fixture
def twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The module's name; it has the kits ``kit``, ``other`` and ``unjudged``, which describe no tools."""
    name = "twice_for_adapters"
    (tmp_path / f"{name}.py").write_text(TWICE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name
