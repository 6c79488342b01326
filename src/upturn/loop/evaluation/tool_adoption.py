"""Use of tools in stored trajectories, with what helps in their tasks as far as it is known."""

from collections.abc import Mapping

from upturn.pool import Pool, Scope, Selection
from upturn.records import Task
from upturn.rewards.calls import Adoption, adoption_of

GOLD = "gold_actions"
"""In a task's context: the calls that solve it, a list of objects with ``name``; imports of tau-bench have it."""
IMPORTED = "tool"
"""Target of the tools of imported conversations."""


def tool_adoption(pool: Pool, *, tenant: Scope, selection: Selection) -> Adoption:
    """The counts over the selected trajectories."""
    return adoption_of(
        (item.trajectory, helping_tools(item.task)) for item in pool.experiences(selection, tenant=tenant)
    )


def helping_tools(task: Task) -> frozenset[str] | None:
    """The tools of the task's gold calls, by the names of actions; empty = it needs none; None = it has no gold."""
    gold = task.context.get(GOLD)
    if not isinstance(gold, list):
        return None
    names = [str(call.get("name")) for call in gold if isinstance(call, Mapping)]
    return frozenset(name if "." in name else f"{IMPORTED}.{name}" for name in names)
