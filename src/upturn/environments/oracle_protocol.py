"""What a kit knows beside its contract, so that more than the contract can be checked (``upturn env validate``).

Optional, and never for agents: ``upturn.environments.validation`` asks, nothing that lets agents work does.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from upturn.environments.kit import EnvironmentKit
from upturn.environments.scripted_policy import Player
from upturn.records import JsonValue, Task


@runtime_checkable
class ProvenKit(Protocol):
    """A kit that can show that its tasks can be solved, and says what must not pay or be seen. Optional."""

    def oracle(self, task: Task) -> Player | None:
        """Who solves the task in the shortest known way; None = nobody is known."""

    def canaries(self, task: Task) -> Sequence[str]:
        """Texts that only the verifier's side knows: no observation may show one before it was earned.

        Earned is a text that the agent wrote itself in an earlier or the same action, and one that answers an
        operation after which the oracle is shown it, too. Every other appearance is a leak, the instruction and
        messages of errors included. Markers in what the agent may not open belong here as well. At least
        ``CANARY_LENGTH`` characters, so that none stands anywhere by chance; empty = there are none to look for.
        """

    def attacks(self, task: Task) -> Mapping[str, Player]:
        """Ways to cheat that are particular to this kit, by name; the verifier must call none a success."""

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
        """Whether the state may hold this value (None = nothing) at this path after perfect work, and it stays
        perfect: what is written beside the facts, and side effects that are allowed. ``path``: keys from the
        outside in, places in lists as numbers in text."""


@runtime_checkable
class WorldKit(Protocol):
    """A kit whose ``reset`` does not hash the whole world, because that would take too long. Optional."""

    def world_hash(self, task: Task) -> str:
        """A hash of everything that is there when the task begins, whatever the task's id."""


CANARY_LENGTH = 8


def oracle_of(kit: EnvironmentKit, task: Task) -> Player | None:
    """The kit's oracle for the task; None where it knows none."""
    return kit.oracle(task) if isinstance(kit, ProvenKit) else None


def world_of(kit: EnvironmentKit, task: Task) -> str:
    """A hash of the world that the task begins in: the kit's own, or else ``Info.state_hash`` of ``reset``; empty =
    the kit tells none."""
    if isinstance(kit, WorldKit):
        return kit.world_hash(task)
    return kit.environment(task).reset(task)[1].state_hash


def content_hash(task: Task, world: str) -> str:
    """16 hex digits over what the task asks for and the world it begins in, as ``world_of`` tells it.

    Id, seed and tenant are left out: two tasks with one content hash are the same work under two names, and a task
    whose content hash has changed under its id is other work than it was.
    """
    asked = [
        task.instruction,
        task.family,
        task.level,
        task.split,
        task.environment,
        dict(task.context),
        world,
    ]
    written = json.dumps(asked, sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(written.encode(), digest_size=8).hexdigest()
