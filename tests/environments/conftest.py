"""Sandboxes, where the machine allows them."""

import asyncio
from pathlib import Path

import pytest

from upturn.environments.sandbox import Bubblewrap
from upturn.errors import SandboxError


@pytest.fixture
def bubblewrap() -> None:
    """Skips where there is none, or the machine does not let it start."""
    try:
        asyncio.run(Bubblewrap(Path()).check())
    except SandboxError as exc:
        if "does not isolate" in str(exc):
            raise
        pytest.skip(f"untrusted code does not run here: {exc}")
