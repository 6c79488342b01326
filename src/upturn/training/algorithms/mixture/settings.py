"""What a run that mixes several ways of learning can be told. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from upturn.training.run_settings import Keep, plan_problems
from upturn.training.settings import Decay, OptimiserSettings
from upturn.training.validators import is_positive, refuse, unless


@dataclass(frozen=True, slots=True)
class MixtureSettings:
    """The run and its optimiser; what is learned, and how much each part counts, stands in the parts."""

    units: int = 40
    optimiser: OptimiserSettings = field(default_factory=lambda: OptimiserSettings(learning_rate=1e-4))
    decay: Decay = "none"
    """How the learning rate falls over the units: with ``linear`` from all of it in the first to 1/n in the last
    of n."""
    evaluate_every: int | None = 5
    """Units between two evaluations; None = never evaluated. The first comes before any training."""
    target_score: float | None = None
    """Training stops once an evaluation reaches it; None = no target."""
    patience: int | None = None
    """Training stops after this many evaluations in a row without a new best; None = never for this reason."""
    cost_limits: Mapping[str, float] = field(default_factory=dict)
    """The most that each of these costs may be in an evaluation."""
    keep: Keep = "best"
    checkpoint_every: int = 1
    """Units between two checkpoints."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(unless(self.units, "units", "at least 1", is_positive), *plan_problems(self))
