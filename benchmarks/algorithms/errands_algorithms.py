"""The ways of learning that are compared in errands, with their settings there."""

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

_ENDLESS = 1_000
"""Rounds: the budget of tokens ends a run."""


class Attempts(Protocol):
    """What a way may ask for."""

    def collect(self, round_: int, /) -> list[ScoredGroup]:
        """Fresh attempts."""

    def second(self, round_: int, failed: Sequence[ScoredGroup], /) -> list[HintedGroup]:
        """Attempts with help at tasks that failed."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way of learning as it is set in errands."""

    settings: Any
    """Of its algorithm: a dataclass."""
    learn: Callable[[PreTrainedModel, Attempts, Any, RunOptions], object]
    """``(model, attempts, settings, run)``; ``run``: seed, folder and evaluation."""
    round_share: float = 0.0
    """Of the budget that one round samples at least; 0 = one batch of tasks."""


def _grpo(model: PreTrainedModel, attempts: Attempts, settings: GrpoSettings, run: RunOptions) -> object:
    return run_grpo(model, attempts.collect, settings, run)


def _ppo(model: PreTrainedModel, attempts: Attempts, settings: PpoSettings, run: RunOptions) -> object:
    return run_ppo(model, attempts.collect, settings, run)


def _dpo_rounds(model: PreTrainedModel, attempts: Attempts, settings: OnlineDpoSettings, run: RunOptions) -> object:
    return run_online_dpo(model, attempts.collect, settings, run)


def _imitation(model: PreTrainedModel, attempts: Attempts, settings: ImitationSettings, run: RunOptions) -> object:
    second = None if settings.second is None else attempts.second
    return run_imitation(model, attempts.collect, settings, run, second=second)


_RATE = OptimiserSettings(learning_rate=3e-4)
WAYS: Mapping[str, Way] = {
    "grpo": Way(GrpoSettings(iterations=_ENDLESS, optimiser=_RATE, evaluate_every=3, keep="final"), _grpo),
    "ppo": Way(
        PpoSettings(
            iterations=_ENDLESS,
            optimiser=_RATE,
            critic=CriticSettings(learning_rate=1e-3),
            evaluate_every=3,
            keep="final",
        ),
        _ppo,
    ),
    "dpo_rounds": Way(
        OnlineDpoSettings(iterations=_ENDLESS, optimiser=_RATE, evaluate_every=3, keep="final"), _dpo_rounds
    ),
    "star": Way(
        replace(imitation("star"), iterations=_ENDLESS, selection=SelectionSettings(), keep="final"),
        _imitation,
        round_share=1 / 6,
    ),
    "rejection": Way(replace(imitation("rejection"), keep="final"), _imitation, round_share=1.0),
}
"""By name. GRPO as in ``python -m benchmarks credit``; others with its learning rate where they step as often, and
with those of their presets where they train whole passes."""
