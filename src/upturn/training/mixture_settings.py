"""What a run that mixes several ways of learning can be told. No torch here."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from upturn.training.requirement import is_positive, refuse, unless, unless_missing
from upturn.training.settings import Decay, Keep, OptimiserSettings


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
        watched = [name for name in ("target_score", "patience") if getattr(self, name) is not None]
        watched += [name for name in ("cost_limits",) if getattr(self, name)]
        watched += ["keep='best'"] if self.keep == "best" else []
        refuse(
            unless(self.units, "units", "at least 1", is_positive),
            unless(self.checkpoint_every, "checkpoint_every", "at least 1", is_positive),
            unless_missing(self.patience, "patience", "at least 1", is_positive),
            unless_missing(self.target_score, "target_score", "finite", math.isfinite),
            unless_missing(self.evaluate_every, "evaluate_every", "at least 1 or None (never)", is_positive),
            *(
                unless(limit, f"cost_limits[{name!r}]", "finite", math.isfinite)
                for name, limit in self.cost_limits.items()
            ),
            f"{' and '.join(watched)} would do nothing with evaluate_every=None; set evaluate_every, or leave them "
            "out and set keep='final'"
            if watched and self.evaluate_every is None
            else None,
            "cost_limits cannot keep keep='final' from keeping weights that break them; set keep='best'"
            if self.cost_limits and self.keep == "final"
            else None,
        )
