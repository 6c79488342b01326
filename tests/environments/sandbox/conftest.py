"""A workspace that the ordinary user of root's sandboxes reaches."""

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
