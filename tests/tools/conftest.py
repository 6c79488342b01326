"""The project's tools are scripts, not a package: they are loaded from their files."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parent.parent.parent / "tools"


@pytest.fixture
def load_tool() -> Callable[[str], ModuleType]:
    """Loads ``tools/<name>.py`` without running it."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"upturn_tool_{name}", TOOLS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
