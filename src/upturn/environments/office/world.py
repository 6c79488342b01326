"""The world that a task begins in, as text and as a hash. Takes milliseconds, so ``reset`` does not use it."""

import hashlib
from collections.abc import Iterator

from upturn.environments.office.generation import Scenario
from upturn.environments.office.state import TABLES


def office_parts(scenario: Scenario) -> Iterator[bytes]:
    """The ``repr`` of the persona, then of every item of the office."""
    yield repr(scenario.workspace.persona).encode()
    for name in TABLES:
        for item in getattr(scenario.workspace, name).values():
            yield repr(item).encode()


def world_hash(scenario: Scenario) -> str:
    """16 hex digits over the office, its user and its planned faults. The goal is not part of it, nor is the
    workspace's seed, which differs between all tasks."""
    workspace = scenario.workspace
    digest = hashlib.blake2b(
        repr((workspace.owner, workspace.started_at, scenario.draft.faults)).encode(), digest_size=8
    )
    for part in office_parts(scenario):
        digest.update(part)
    return digest.hexdigest()
