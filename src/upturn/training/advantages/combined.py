"""Credit for the outcome and credit for turns, added up in the open."""

from upturn.training.advantage import Advantage, GroupAdvantages, Need, ScoredGroup
from upturn.training.advantages.returns import told


class Combined:
    """A = A of ``outcome`` + ``weight`` · A of ``turn``, turn by turn."""

    def __init__(self, outcome: Advantage, turn: Advantage, weight: float) -> None:
        self.outcome = outcome
        self.turn = turn
        self.weight = weight
        self.needs: frozenset[Need] = outcome.needs | turn.needs

    def __call__(self, group: ScoredGroup) -> GroupAdvantages:
        """One number per turn of each member; the returns are those of ``outcome``."""
        first, second = self.outcome(group), self.turn(group)
        added = [
            [whole + self.weight * part for whole, part in zip(*pair, strict=True)]
            for pair in zip(first.turns, second.turns, strict=True)
        ]
        return told(added, first.returns)
