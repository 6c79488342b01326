"""Modules that several tests share: the toy desk, a demo's made-up facts, and readers of a run's records."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(autouse=True)
def no_curves(undrawn: None) -> None:
    """Of what is trained here, nobody looks at the curves; see ``tests/report`` and ``tests/cli``."""


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``toy_desk.py``: a toy environment, agents, and runs of them."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("toy_desk")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``toy_facts.py``: a demo's facts in round numbers."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("toy_facts")


@pytest.fixture
def evidence(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``evidence.py``: readers of a run's folder."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("evidence")
