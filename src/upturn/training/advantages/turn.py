"""Turns of the same number, compared with each other."""

from upturn.training.advantage import GroupAdvantages, Need, ScoredGroup
from upturn.training.advantages.returns import (
    STD_FLOOR,
    differ,
    first_returns,
    mean_of,
    returns_to_go,
    sample_std,
    silent,
    told,
)


class TurnRelative:
    """Discounted return-to-go of each turn, minus the mean over the members' turns with the same index.

    The per-turn returns of GTPO (arXiv 2511.14846), normalised over the group. What is comparable is decided here:
    turns of one index, since their members have spent as many turns by then and what they earned before counts for
    neither. Members that ended earlier take no part, so a turn that only one member reached gets 0. The states may
    still differ: a good turn from a bad state looks bad. ``is_scaled`` divides by the sample standard deviation at
    that index.
    """

    needs: frozenset[Need] = frozenset()

    def __init__(self, *, gamma: float = 1.0, is_scaled: bool = False) -> None:
        self.gamma = gamma
        self.is_scaled = is_scaled

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """Sums to 0 over the members at each index."""
        to_go = returns_to_go(group, self.gamma)
        found = [list(silent(member)) for member in group.members]
        for index in range(max((len(turns) for turns in to_go if turns is not None), default=0)):
            at_index = {
                place: turns[index] for place, turns in enumerate(to_go) if turns is not None and len(turns) > index
            }
            values = list(at_index.values())
            if not differ(values):
                continue
            mean = mean_of(values)
            divisor = sample_std(values) + STD_FLOOR if self.is_scaled else 1.0
            for place, value in at_index.items():
                found[place][index] = (value - mean) / divisor
        return told(found, first_returns(to_go))
