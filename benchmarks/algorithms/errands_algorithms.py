"""The algorithms that are compared in errands, with their settings there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.training import ScoredGroup, SelectionSettings
from upturn.training.algorithms.expert_iteration import ImitationSettings, imitation, run_imitation
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.online_dpo import OnlineDpoSettings, run_online_dpo
from upturn.training.algorithms.ppo import CriticSettings, PpoSettings, run_ppo
from upturn.training.data import HintedGroup
from upturn.training.runs import RunOptions

_UNLIMITED = 1_000
"""Rounds: the token budget ends a run."""


class RolloutSource(Protocol):
    """Samples groups for an algorithm."""

    def collect(self, round_: int, /) -> list[ScoredGroup]:
        """New groups."""

    def collect_hinted(self, round_: int, failed: Sequence[ScoredGroup], /) -> list[HintedGroup]:
        """Hinted rollouts on the tasks of failed groups."""


Train = Callable[[PreTrainedModel, RolloutSource, Any, RunOptions], object]
"""``(model, source, settings, options)``; ``options``: seed, folder and evaluation."""


@dataclass(frozen=True, slots=True)
class ErrandsAlgorithm:
    """An algorithm as configured for errands."""

    settings: Any
    """The algorithm's settings: a dataclass."""
    train: Train
    round_share: float = 0.0
    """Share of the budget that one round samples at least; 0 = one batch of tasks."""


def _online(run: Callable[..., object]) -> Train:
    """Trains on new groups only."""
    return lambda model, source, settings, options: run(model, source.collect, settings, options)


def _imitation(
    model: PreTrainedModel, source: RolloutSource, settings: ImitationSettings, options: RunOptions
) -> object:
    second = None if settings.second is None else source.collect_hinted
    return run_imitation(model, source.collect, settings, options, second=second)


_OPTIMISER = OptimiserSettings(learning_rate=3e-4)
ALGORITHMS: Mapping[str, ErrandsAlgorithm] = {
    "grpo": ErrandsAlgorithm(
        GrpoSettings(iterations=_UNLIMITED, optimiser=_OPTIMISER, evaluate_every=3, keep="final"),
        _online(run_grpo),
    ),
    "ppo": ErrandsAlgorithm(
        PpoSettings(
            iterations=_UNLIMITED,
            optimiser=_OPTIMISER,
            critic=CriticSettings(learning_rate=1e-3),
            evaluate_every=3,
            keep="final",
        ),
        _online(run_ppo),
    ),
    "dpo_rounds": ErrandsAlgorithm(
        OnlineDpoSettings(iterations=_UNLIMITED, optimiser=_OPTIMISER, evaluate_every=3, keep="final"),
        _online(run_online_dpo),
    ),
    "star": ErrandsAlgorithm(
        replace(imitation("star"), iterations=_UNLIMITED, selection=SelectionSettings(), keep="final"),
        _imitation,
        round_share=1 / 6,
    ),
    "rejection": ErrandsAlgorithm(replace(imitation("rejection"), keep="final"), _imitation, round_share=1.0),
}
"""By name. GRPO as in ``python -m benchmarks credit``. Others have its learning rate if they step as often,
otherwise that of their presets, which train whole passes."""
