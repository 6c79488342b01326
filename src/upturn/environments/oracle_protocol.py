"""Optional protocols of a kit for ``upturn env validate``: an oracle, canaries, attacks, right solutions, hashes.

Used by ``upturn.environments.validation`` only, never shown to agents.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from upturn.environments.kit import EnvironmentKit
from upturn.environments.scripted_policy import ScriptedPolicy
from upturn.records import JsonValue, Task


class PricedAttack(NamedTuple):
    """An attack that counts only if it was carried out, or that may succeed at a price."""

    policy: ScriptedPolicy
    decisive: tuple[int, ...] = ()
    """Indices of actions that must all be accepted; otherwise the run does not count."""
    most: float = 0.0
    """The highest score of a success that is a stated leniency; 0 = it must fail."""


@runtime_checkable
class OracleKit(Protocol):
    """A kit with an oracle that solves its tasks; it also declares what must not succeed or leak. Optional."""

    def oracle(self, task: Task) -> ScriptedPolicy | None:
        """A policy that solves the task in the fewest known actions; None = no oracle."""

    def canaries(self, task: Task) -> Sequence[str]:
        """Texts known to the verifier only: no observation may show one before it is earned.

        A text is earned when the agent wrote it in an earlier or the same action, or when it answers an operation
        after which the oracle sees it too. Any other occurrence is a leak, also in the instruction and in error
        messages. Includes markers in files that the agent must not open. At least ``CANARY_LENGTH`` characters, so
        that none occurs by chance; empty = no canaries.
        """

    def attacks(self, task: Task) -> Mapping[str, ScriptedPolicy | PricedAttack]:
        """Policies that try to cheat this kit, by name; the verifier must reject all of them, apart from prices."""

    def may_differ(self, task: Task, path: Sequence[str], value: JsonValue) -> bool:
        """Whether a final state with this value (None = missing) at this path still counts as solved: true for free
        text and allowed side effects. ``path``: keys from the outside in, list indices as text."""


@runtime_checkable
class SolutionsKit(Protocol):
    """A kit that knows unusual but right solutions of its tasks. Optional."""

    def right_solutions(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        """Policies that solve the task in another way than the oracle, by name; the verifier must accept them.

        A name occurs only where its solution fits the task.
        """


@runtime_checkable
class WorldHashKit(Protocol):
    """A kit whose ``reset`` does not hash the whole world, for speed. Optional."""

    def world_hash(self, task: Task) -> str:
        """A hash of the task's whole initial world, independent of the task's id."""


CANARY_LENGTH = 8


def oracle_of(kit: EnvironmentKit, task: Task) -> ScriptedPolicy | None:
    """The kit's oracle for the task; None where it has none."""
    return kit.oracle(task) if isinstance(kit, OracleKit) else None


def world_hash_of(kit: EnvironmentKit, task: Task) -> str:
    """A hash of the task's initial world: the kit's, or else ``Info.state_hash`` of ``reset``; empty = unknown."""
    if isinstance(kit, WorldHashKit):
        return kit.world_hash(task)
    return kit.environment(task).reset(task)[1].state_hash


def content_hash(task: Task, world: str) -> str:
    """16 hex digits over the task's content and its initial world, from ``world_hash_of``.

    Excludes id, seed and tenant: two tasks with one content hash are the same work, and a task whose content hash
    changes under its id has changed.
    """
    about = (task.instruction, task.family, task.level, task.split, task.environment)
    encoded = json.dumps([*about, dict(task.context), world], sort_keys=True)
    return hashlib.blake2b(encoded.encode(), digest_size=8).hexdigest()
