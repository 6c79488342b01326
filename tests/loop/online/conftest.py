"""Shared by the tests of the online service."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loop.online.online_desk import Desk, open_desk
from upturn.pool import Pool


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A service over a new pool with agents ``ann`` and ``ben``."""
    with Pool.open(tmp_path / "pool.db") as pool:
        yield open_desk(pool)
