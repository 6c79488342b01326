"""Compares each component of the reward by itself, and adds the results."""

import math
from collections.abc import Sequence

from upturn.errors import TrainingError
from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup, ScoredTrajectory
from upturn.training.advantages.returns import centred, checked_rewards, group_advantages


class ComponentRelative:
    """Σ_k w_k·(r_k − mean r_k)/std r_k over the components k of the reward, each within the group.

    GDPO (arXiv 2601.05242) without its last step, the normalisation over the whole iteration, which is
    ``scale="whiten"``. GRPO divides the sum of the components by its deviation, so that rewards (1, 0) and (0, 1)
    get one advantage, and a component of small deviation counts little. The deviation is that of the sample; a
    component in which all members are equal adds 0. A member with a missing component is left out of its comparison
    only; one without a reward is unscorable: excluded from every comparison, advantage 0.
    """

    needs: frozenset[Need] = frozenset({"reward_components"})

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member, the same in all of its turns."""
        values = [_component_values(member) for member in group.members]
        scored = [index for index, numbers in enumerate(values) if numbers is not None]
        totals = [0.0] * len(values)
        for name, weight in _weights(group, scored).items():
            known = [(index, value) for index in scored if (value := (values[index] or {}).get(name)) is not None]
            scaled = centred([value for _, value in known], is_scaled=True)
            for (index, _), value in zip(known, scaled, strict=True):
                totals[index] += weight * value
        turns = [
            (total,) * len(member.trajectory.turns) for total, member in zip(totals, group.members, strict=True)
        ]
        returns = [
            None if numbers is None else math.fsum(checked_rewards(member) or ())
            for numbers, member in zip(values, group.members, strict=True)
        ]
        return group_advantages(turns, tuple(returns))


def _component_values(member: ScoredTrajectory) -> dict[str, float | None] | None:
    """The components' values, None = missing; None for all = unscorable.

    Raises TrainingError where none are known.
    """
    if checked_rewards(member) is None:
        return None
    if member.components is None:
        raise TrainingError(
            f"trajectory {member.trajectory.id!r} has a reward but no reward components, which "
            "estimator='components' compares one by one; give ScoredTrajectory.components, or take estimator="
            "'trajectory'"
        )
    return {component.name: component.value for component in member.components}


def _weights(group: ScoredGroup, scored: Sequence[int]) -> dict[str, float]:
    """The components' weights. Raises TrainingError where members have different ones."""
    tables = [{part.name: part.weight for part in group.members[index].components or ()} for index in scored]
    if any(table != tables[0] for table in tables):
        raise TrainingError(
            f"trajectories of task {group.task.id!r} have different reward components or weights: "
            f"{next(table for table in tables if table != tables[0])!r} and {tables[0]!r}; give all the same"
        )
    return tables[0] if tables else {}
