"""The estimators that are compared, each with the options its source gives it."""

from dataclasses import dataclass, field

from benchmarks.result_cache import Entry, digest
from upturn.training.advantages import AdvantageSettings

BASELINE = "trajectory"
"""The contender that the others are measured against: one number for a whole attempt."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A setting of turn credit."""

    name: str
    settings: AdvantageSettings = field(default_factory=AdvantageSettings)
    continuations: int = 0
    """Of each state, to measure its value, where agreement is measured; 0 = the estimator needs no values."""
    practised: tuple[int, ...] = (0,)
    """The same in practice, where they cost tokens: in the key-door world whichever number was best on other seeds,
    in errands, which has no seeds to spare, the first."""

    def entry(self, part: str, seed: int) -> Entry:
        """Of a measurement of this contender: another one when its options change."""
        return Entry(part, self.name, seed, digest(self))


CONTENDERS = (
    Contender(BASELINE),
    Contender("turn", AdvantageSettings("turn", gamma=0.95)),
    Contender("state", AdvantageSettings("state", gamma=0.95)),
    Contender("tree", AdvantageSettings("tree")),
    Contender("tree_outcome", AdvantageSettings("tree", turn_weight=1.0)),
    Contender("monte_carlo", AdvantageSettings("monte_carlo"), continuations=8, practised=(4, 1, 8)),
    Contender(
        "divergence_outcome",
        AdvantageSettings("divergence", turn_weight=1.0),
        continuations=64,
        practised=(16,),
    ),
)
