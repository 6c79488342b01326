"""A workspace that the ordinary user of root's sandboxes reaches, and what tests of sandboxes need."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from upturn.environments.sandbox import Bubblewrap
from upturn.errors import SandboxError


@pytest.fixture
def workspace() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="upturn-test-")
    yield Path(folder).resolve()
    shutil.rmtree(folder)


@pytest.fixture
def bubblewrap() -> None:
    """Skips where there is none, or the machine does not let it start."""
    try:
        asyncio.run(Bubblewrap(Path()).check())
    except SandboxError as exc:
        if "does not isolate" in str(exc):
            raise
        pytest.skip(f"untrusted code does not run here: {exc}")
