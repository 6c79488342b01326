"""The world that a task begins in, as text and as one hash. Takes milliseconds, so ``reset`` does without."""

import hashlib
from collections.abc import Iterator

from upturn.environments.office.generation import Scenario
from upturn.environments.office.state import TABLES


def written(scenario: Scenario) -> Iterator[bytes]:
    """What the user wants and knows, then every item of the office, as Python writes them."""
    yield repr(scenario.workspace.persona).encode()
    for name in TABLES:
        for item in getattr(scenario.workspace, name).values():
            yield repr(item).encode()


def world_hash(scenario: Scenario) -> str:
    """16 hex digits over the office, its user and what goes wrong in its apps. What is right is no part of it,
    nor is the seed of chance, by which every task would be another one."""
    workspace = scenario.workspace
    digest = hashlib.blake2b(
        repr((workspace.owner, workspace.begun, scenario.draft.faults)).encode(), digest_size=8
    )
    for part in written(scenario):
        digest.update(part)
    return digest.hexdigest()
