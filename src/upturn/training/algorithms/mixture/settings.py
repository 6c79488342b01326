"""The settings of several algorithms in one run. No torch here."""

from typing import Annotated

from pydantic import Field

from upturn.config import Count, NotNegative, settings
from upturn.training.run_settings import OnlineSettings


@settings
class MixtureSettings(OnlineSettings):
    """``upturn train mixture``: GRPO with successes, pairs or ratings from a pool in the same optimiser steps, each
    part with its own denominator. GRPO's loss and advantage are those of ``[grpo]``, the other parts use their own
    sections, except for epochs and optimisers, which are the mixture's."""

    group_size: Annotated[int, Field(ge=2)] = 8
    """Trajectories per task, which are compared with each other."""
    minibatches: Count = 2
    """Optimiser steps that GRPO's part of an iteration is split over, at most one for each task with a signal; each
    other part has one step per iteration."""
    sft: NotNegative = 1.0
    """Weight of supervised training on the pool's verified successes, relative to GRPO's 1; 0 = none."""
    dpo: NotNegative = 0.0
    """Weight of pairs; 0 = none."""
    kto: NotNegative = 0.0
    """Weight of ratings; 0 = none."""
