"""The settings of several algorithms in one run. No torch here."""

from typing import Annotated

from pydantic import Field

from upturn.config import Count, NotNegative, settings
from upturn.training.run_settings import OnlineSettings


@settings
class MixtureSettings(OnlineSettings):
    """``upturn train mixture``: GRPO with successes, pairs or ratings from a pool in the same optimiser steps, each
    part with its own denominator. GRPO's loss and advantage are those of ``[grpo]``, the other parts take their
    sections; of those, epochs and optimisers are the mixture's own."""

    group_size: Annotated[int, Field(ge=2)] = 8
    """Trajectories of each task, which are compared with each other."""
    minibatches: Count = 2
    """Optimiser steps that GRPO's part of an iteration is split over, at most one for each task that teaches
    something; each other part has one step in an iteration."""
    sft: NotNegative = 1.0
    """Weight of supervised training on the pool's verified successes beside GRPO's 1; 0 = none."""
    dpo: NotNegative = 0.0
    """Weight of pairs; 0 = none."""
    kto: NotNegative = 0.0
    """Weight of ratings; 0 = none."""
