"""The toy desk, importable by agents and environments named in configurations."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``toy_desk.py``: a toy environment, agents, and runs of them."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("toy_desk")
