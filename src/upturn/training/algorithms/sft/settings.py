"""The settings of supervised training. No torch here."""

from upturn.config import Count, OptimiserSettings, Share, settings
from upturn.training.run_settings import EpochSettings


@settings
class SftSettings(EpochSettings):
    """Training on the agents' own verified successes."""

    optimiser: OptimiserSettings = OptimiserSettings(learning_rate=1e-3, warmup_steps=10)
    """AdamW."""
    batch_rows: Count = 32
    """Trajectory rows in one optimiser step."""
    min_score: Share = 0.8
    """Lowest score of the verified successes that are selected from the pool."""
    limit_per_family: Count = 48
    """Most verified successes of one family that are selected from the pool, the latest ones, so that easy families
    do not crowd out the others."""
