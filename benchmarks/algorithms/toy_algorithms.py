"""Every way of learning as it is set on the toys.

One learning rate for all; each takes as many rounds as it likes, up to a bound, and where it is examined on its way
it stops when it has almost all there is.
"""

from collections.abc import Mapping
from dataclasses import replace

from benchmarks.algorithms.toy_training import (
    HELD,
    Contestant,
    Lesson,
    learn_dpo,
    learn_dpo_rounds,
    learn_grpo,
    learn_imitation,
    learn_kto,
    learn_mixture,
    learn_offline,
    learn_ppo,
    learn_sft,
    teach_copying,
)
from benchmarks.algorithms.toy_world_model import learn_world_model, teach_guessing
from upturn.config import OptimiserSettings
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.expert_iteration import ImitationSettings, imitation
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.kto import KtoSettings
from upturn.training.algorithms.mixture import MixtureSettings
from upturn.training.algorithms.offline import CORRECTION, OfflineSettings
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.algorithms.ppo import CriticSettings, PpoSettings
from upturn.training.algorithms.rft import RftSettings
from upturn.training.algorithms.sft import SftSettings
from upturn.training.algorithms.world_model import WorldModelSettings
from upturn.training.selection_settings import SelectionSettings

ENOUGH = 0.98
"""Of the optimum; training stops there, so that easy toys do not take long."""
RATE = OptimiserSettings(learning_rate=3e-3)
_ROUNDS = 150
_MANY = 1_024
"""Attempts at each task where there is one round only: the chance that a task of 64 answers is never solved is then
one in ten million."""
_FEW = 8
"""So few that most tasks are failed at first, and hints have something to do."""
_LESSON = SftSettings(epochs=8, batch_rows=64, optimiser=replace(RATE, warmup_steps=20), decay="linear")
_UNBIASED = replace(CORRECTION, weight_cap=16.0)
"""What the sampler wrote now and then is written always in the end. With its weight cut at 2, as usual, a
second-best arm would keep a share."""


def _imitation(name: str, *, rounds: int, epochs: int) -> ImitationSettings:
    """The named way; only full success is a success here."""
    return replace(
        imitation(name),
        iterations=rounds,
        selection=SelectionSettings(threshold=1.0, top=4),
        epochs=epochs,
        optimiser=RATE,
        decay="none",
        target_score=ENOUGH,
    )


CONTESTANTS: Mapping[str, Contestant] = {
    "sft": Contestant(
        SftSettings(epochs=_ROUNDS, batch_rows=16, optimiser=RATE, decay="linear"), learn_sft, ("epochs",)
    ),
    "grpo": Contestant(
        GrpoSettings(iterations=_ROUNDS, objective=HELD, optimiser=RATE, target_score=ENOUGH),
        learn_grpo,
        ("iterations",),
    ),
    "ppo": Contestant(
        PpoSettings(
            iterations=_ROUNDS,
            objective=HELD,
            optimiser=RATE,
            critic=CriticSettings(learning_rate=RATE.learning_rate),
            target_score=ENOUGH,
        ),
        learn_ppo,
        ("iterations",),
        attempts=64,  # a critic compares nothing within a group, so rare finds need company
    ),
    "dpo": Contestant(
        DpoSettings(epochs=60, batch_pairs=32, optimiser=RATE, decay="linear"), learn_dpo, ("epochs",)
    ),
    "dpo_rounds": Contestant(
        OnlineDpoSettings(iterations=_ROUNDS, batch_pairs=8, optimiser=RATE, evaluate_every=5, target_score=ENOUGH),
        learn_dpo_rounds,
        ("iterations",),
    ),
    "kto": Contestant(
        KtoSettings(
            epochs=120,
            # A rating that is fulfilled lets go, so that those are heard that are not.
            beta=0.3,
            optimiser=replace(RATE, warmup_steps=20),
            decay="linear",
        ),
        learn_kto,
        ("epochs",),
        attempts=16,
    ),
    "rejection": Contestant(
        _imitation("rejection", rounds=1, epochs=_ROUNDS), learn_imitation, ("epochs",), attempts=_MANY
    ),
    "iterated": Contestant(_imitation("iterated", rounds=60, epochs=8), learn_imitation, ("iterations", "epochs")),
    "star": Contestant(
        _imitation("star", rounds=20, epochs=_ROUNDS),
        learn_imitation,
        ("iterations", "epochs"),
        attempts=_FEW,
        lesson=Lesson(_LESSON, teach_copying),
    ),
    "self_repair": Contestant(
        _imitation("self_repair", rounds=20, epochs=_ROUNDS),
        learn_imitation,
        ("iterations", "epochs"),
        attempts=192,
    ),
    "offline": Contestant(
        OfflineSettings(groups=3, iterations=2 * _ROUNDS, mismatch=_UNBIASED, optimiser=RATE, target_score=ENOUGH),
        learn_offline,
        ("iterations",),
    ),
    "mixture": Contestant(
        MixtureSettings(iterations=_ROUNDS, optimiser=RATE, target_score=ENOUGH), learn_mixture, ("iterations",)
    ),
    "rft": Contestant(
        GrpoSettings(
            iterations=_ROUNDS,
            minibatches=RftSettings().minibatches,
            objective=RftSettings().objective,
            optimiser=RATE,
            target_score=ENOUGH,
        ),
        learn_grpo,
        ("iterations",),
    ),
    "world_model": Contestant(
        WorldModelSettings(
            transitions_per_iteration=8,
            group_size=16,
            warm_up=None,
            minibatches=2,
            iterations=_ROUNDS,
            objective=HELD,
            advantage=AdvantageSettings(scale="std"),
            optimiser=RATE,
            target_score=ENOUGH,
        ),
        learn_world_model,
        ("iterations",),
        lesson=Lesson(replace(_LESSON, epochs=32), teach_guessing),
        toys=("lamp",),
    ),
}
"""By name."""
