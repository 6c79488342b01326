"""Modules that several tests share: the toy desk, a demo's made-up facts, and readers of what a run left."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest


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
    """``evidence.py``: what a run left in its folder."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("evidence")
