"""The settings of Kahneman-Tversky optimisation. No torch here."""

from upturn.config import Count, Positive, settings
from upturn.training.run_settings import EpochSettings


@settings
class KtoSettings(EpochSettings):
    """``upturn train kto``: training on thumbs-up/down ratings of single trajectories from the pool; the reference
    is the initial weights."""

    batch_trajectories: Count = 32
    """Rated trajectories in one optimiser step."""
    beta: Positive = 0.1
    """Strength of the pull to the reference: smaller lets the model move further for the same rating."""
    desirable_weight: Positive = 1.0
    """λ_D, the weight of a good trajectory. The paper (eq. 8) recommends a λ_D·n_D / (λ_U·n_U) between 1 and 4/3,
    for n_D good and n_U bad ones."""
    undesirable_weight: Positive = 1.0
    """λ_U, the weight of a bad trajectory."""
