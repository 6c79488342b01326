"""Compares turns with the same index."""

from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup
from upturn.training.advantages.returns import centred, first_returns, group_advantages, returns_to_go, zero_credit


class TurnRelative:
    """Discounted return-to-go of each turn, minus the mean over the members' turns with the same index.

    The per-turn returns of GTPO (arXiv 2511.14846), normalised over the group. Turns of one index are comparable:
    their members have had the same number of turns, and earlier rewards are excluded. Members that ended earlier
    are excluded, so a turn that only one member reached gets 0. The states may differ: a good turn from a bad state
    looks bad. ``is_scaled`` divides by the sample standard deviation at that index.
    """

    needs: frozenset[Need] = frozenset()

    def __init__(self, *, gamma: float = 1.0, is_scaled: bool = False) -> None:
        self.gamma = gamma
        self.is_scaled = is_scaled

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """Sums to 0 over the members at each index."""
        rewards_to_go = returns_to_go(group, self.gamma)
        turn_credits = [list(zero_credit(member)) for member in group.members]
        for index in range(max((len(turns) for turns in rewards_to_go if turns is not None), default=0)):
            at_index = {
                member_index: turns[index]
                for member_index, turns in enumerate(rewards_to_go)
                if turns is not None and len(turns) > index
            }
            values = centred(list(at_index.values()), is_scaled=self.is_scaled)
            for member_index, value in zip(at_index, values, strict=True):
                turn_credits[member_index][index] = value
        return group_advantages(turn_credits, first_returns(rewards_to_go))
