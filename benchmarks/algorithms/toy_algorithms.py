"""Every algorithm as configured for the toys.

One learning rate for all. Each trains up to a maximal length; those that are evaluated during training stop close
to the optimum.
"""

from collections.abc import Mapping
from dataclasses import replace

from benchmarks.algorithms.toy_training import (
    KL_OBJECTIVE,
    Preparation,
    ToyAlgorithm,
    train_copying,
    train_dpo,
    train_imitation,
    train_kto,
    train_mixture,
    train_offline,
    train_online,
    train_sft,
)
from benchmarks.algorithms.toy_world_model import train_form, train_world_model
from upturn.config import OptimiserSettings
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.expert_iteration import (
    ImitationSettings,
    IteratedSettings,
    RejectionSettings,
    SelfRepairSettings,
    StarSettings,
)
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.kto import KtoSettings
from upturn.training.algorithms.mixture import MixtureSettings
from upturn.training.algorithms.offline import CORRECTION, OfflineSettings
from upturn.training.algorithms.online_dpo import OnlineDpoSettings, run_online_dpo
from upturn.training.algorithms.ppo import CriticSettings, PpoSettings, run_ppo
from upturn.training.algorithms.rft import RftSettings
from upturn.training.algorithms.sft import SftSettings
from upturn.training.algorithms.world_model import WorldModelSettings
from upturn.training.selection_settings import SelectionSettings

TARGET = 0.98
"""Share of the optimum at which training stops, so that easy toys do not take long."""
OPTIMISER = OptimiserSettings(learning_rate=3e-3)
_ITERATIONS = 150
_LARGE_GROUP = 1_024
"""For a single iteration: the probability that a task of 64 answers is never solved is then one in ten million."""
_SMALL_GROUP = 8
"""So small that most tasks fail at first and hints are needed."""
_PREPARATION = SftSettings(epochs=8, batch_rows=64, optimiser=replace(OPTIMISER, warmup_steps=20), decay="linear")
_UNBIASED = replace(CORRECTION, weight_cap=16.0)
"""A rollout that the sampler rarely wrote has to become certain. With the usual weight cap of 2 a second-best arm
would keep a share."""


def _imitation(settings: ImitationSettings, *, iterations: int, epochs: int) -> ImitationSettings:
    """The settings on toys, where only a reward of 1 is a success."""
    return replace(
        settings,
        iterations=iterations,
        selection=SelectionSettings(threshold=1.0, top=4),
        epochs=epochs,
        optimiser=OPTIMISER,
        decay="none",
        target_score=TARGET,
    )


ALGORITHMS: Mapping[str, ToyAlgorithm] = {
    "sft": ToyAlgorithm(
        SftSettings(epochs=_ITERATIONS, batch_rows=16, optimiser=OPTIMISER, decay="linear"), train_sft, ("epochs",)
    ),
    "grpo": ToyAlgorithm(
        GrpoSettings(iterations=_ITERATIONS, objective=KL_OBJECTIVE, optimiser=OPTIMISER, target_score=TARGET),
        train_online(run_grpo),
    ),
    "ppo": ToyAlgorithm(
        PpoSettings(
            iterations=_ITERATIONS,
            objective=KL_OBJECTIVE,
            optimiser=OPTIMISER,
            critic=CriticSettings(learning_rate=OPTIMISER.learning_rate),
            target_score=TARGET,
        ),
        train_online(run_ppo),
        group_size=64,  # a critic does not compare within a group, so rare successes need more samples
    ),
    "dpo": ToyAlgorithm(
        DpoSettings(epochs=60, batch_pairs=32, optimiser=OPTIMISER, decay="linear"), train_dpo, ("epochs",)
    ),
    "dpo_rounds": ToyAlgorithm(
        OnlineDpoSettings(
            iterations=_ITERATIONS, batch_pairs=8, optimiser=OPTIMISER, evaluate_every=5, target_score=TARGET
        ),
        train_online(run_online_dpo),
    ),
    "kto": ToyAlgorithm(
        KtoSettings(
            epochs=120,
            # So large that the loss of satisfied ratings saturates and the others dominate the gradient.
            beta=0.3,
            optimiser=replace(OPTIMISER, warmup_steps=20),
            decay="linear",
        ),
        train_kto,
        ("epochs",),
        group_size=16,
    ),
    "rejection": ToyAlgorithm(
        _imitation(RejectionSettings(), iterations=1, epochs=_ITERATIONS),
        train_imitation,
        ("epochs",),
        group_size=_LARGE_GROUP,
    ),
    "iterated": ToyAlgorithm(
        _imitation(IteratedSettings(), iterations=60, epochs=8), train_imitation, ("iterations", "epochs")
    ),
    "star": ToyAlgorithm(
        _imitation(StarSettings(), iterations=20, epochs=_ITERATIONS),
        train_imitation,
        ("iterations", "epochs"),
        group_size=_SMALL_GROUP,
        preparation=Preparation(_PREPARATION, train_copying),
    ),
    "self_repair": ToyAlgorithm(
        _imitation(SelfRepairSettings(), iterations=20, epochs=_ITERATIONS),
        train_imitation,
        ("iterations", "epochs"),
        group_size=192,
    ),
    "offline": ToyAlgorithm(
        OfflineSettings(
            groups=3, iterations=2 * _ITERATIONS, mismatch=_UNBIASED, optimiser=OPTIMISER, target_score=TARGET
        ),
        train_offline,
    ),
    "mixture": ToyAlgorithm(
        MixtureSettings(iterations=_ITERATIONS, optimiser=OPTIMISER, target_score=TARGET), train_mixture
    ),
    "rft": ToyAlgorithm(
        GrpoSettings(
            iterations=_ITERATIONS,
            minibatches=RftSettings().minibatches,
            objective=RftSettings().objective,
            optimiser=OPTIMISER,
            target_score=TARGET,
        ),
        train_online(run_grpo),
    ),
    "world_model": ToyAlgorithm(
        WorldModelSettings(
            transitions_per_iteration=8,
            group_size=16,
            warm_up=None,
            minibatches=2,
            iterations=_ITERATIONS,
            objective=KL_OBJECTIVE,
            advantage=AdvantageSettings(scale="std"),
            optimiser=OPTIMISER,
            target_score=TARGET,
        ),
        train_world_model,
        preparation=Preparation(replace(_PREPARATION, epochs=32), train_form),
        toys=("lamp",),
    ),
}
"""By name."""
