"""What of the configuration depends on the run. No torch here."""

from dataclasses import replace

from upturn.config import AdapterSettings, Config
from upturn.training.advantages import AdvantageSettings

CONTINUATIONS = 8
"""Of each state, where the configuration does not say: about VinePPO's 9."""


def adapter_settings(config: Config, *, seed: int) -> AdapterSettings | None:
    """``[lora]``, drawn from this seed unless it names its own; None = whole models are trained."""
    lora = config.lora
    return replace(lora, seed=seed) if lora is not None and lora.seed is None else lora


def continuations(advantage: AdvantageSettings) -> int:
    """From each state of each trajectory, to measure its value; 0 where the estimator needs no values."""
    return (advantage.continuations or CONTINUATIONS) if advantage.measures else 0
