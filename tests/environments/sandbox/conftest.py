"""A workspace that the ordinary user of root's sandboxes reaches, and what tests of sandboxes need."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def workspace() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="upturn-test-")
    yield Path(folder).resolve()
    shutil.rmtree(folder)


@pytest.fixture
def bubblewrap() -> None:
    """Skips where there is none."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed (apt-get install bubblewrap); untrusted code does not run here")


@pytest.fixture
def ordinary_user() -> None:
    if os.getuid() == 0:
        pytest.skip("root may do this")
