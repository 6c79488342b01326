"""The algorithms that are compared in errands, with their settings there, and the source of their rollouts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedModel

from benchmarks.algorithms.token_budget import BudgetExceededError, TokenBudget
from benchmarks.credit import ErrandsSetup
from upturn.config import OptimiserSettings
from upturn.loop.rollouts import HintedRetries, PolicyWorker
from upturn.training import ScoredGroup, SelectionSettings
from upturn.training.algorithms.expert_iteration import (
    ImitationSettings,
    RejectionSettings,
    StarSettings,
    run_imitation,
)
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.online_dpo import OnlineDpoSettings, run_online_dpo
from upturn.training.algorithms.ppo import CriticSettings, PpoSettings, run_ppo
from upturn.training.data import HintedGroup
from upturn.training.runs import RunOptions

_UNLIMITED = 1_000
"""Rounds: the token budget ends a run."""


class RolloutSource:
    """Samples groups for an algorithm within its budget."""

    def __init__(
        self, setup: ErrandsSetup, worker: PolicyWorker, budget: TokenBudget, *, round_share: float, seed: int
    ) -> None:
        self._sink = setup.sink
        self._worker = worker
        self._budget = budget
        self._round_tokens = int(round_share * budget.limit)
        self._batch = 0
        self._spec = setup.rollout_spec(f"practice/{seed}", seed)
        self._tasks = setup.new_task_sampler(seed)

    def collect(self, round_: int, /) -> list[ScoredGroup]:  # noqa: ARG002  # batches are numbered across rounds
        """One batch of tasks, or the batches of a larger round.

        Raises BudgetExceededError once the budget is spent or less than half a round is left: an algorithm that
        restarts in each round would end with the result of that small round.
        """
        self._budget.check()
        if self._budget.limit - self._budget.tokens < self._round_tokens / 2:
            raise BudgetExceededError
        groups: list[ScoredGroup] = []
        end = min(self._budget.tokens + self._round_tokens, self._budget.limit)
        while not groups or self._budget.tokens < end:
            batch = self._worker.sample_groups(self._tasks.tasks(self._batch), self._batch, self._spec, self._sink)
            self._batch += 1
            self._budget.add(batch)
            groups += batch
        return groups

    def collect_hinted(self, round_: int, failed: Sequence[ScoredGroup], /) -> list[HintedGroup]:
        """Rollouts on the failed tasks with the answer as a hint."""
        hinted = HintedRetries(self._worker, self._spec, "rationalisation")(round_, failed)
        self._budget.add([hinted_group.group for hinted_group in hinted])
        return hinted


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
    collect_hinted = None if settings.hint is None else source.collect_hinted
    return run_imitation(model, source.collect, settings, options, collect_hinted=collect_hinted)


_OPTIMISER = OptimiserSettings(learning_rate=3e-4)
ALGORITHMS: Mapping[str, ErrandsAlgorithm] = {
    "grpo": ErrandsAlgorithm(
        GrpoSettings(iterations=_UNLIMITED, optimiser=_OPTIMISER, evaluate_every=3, keep="final"), _online(run_grpo)
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
        replace(StarSettings(), iterations=_UNLIMITED, selection=SelectionSettings(), keep="final"),
        _imitation,
        round_share=1 / 6,
    ),
    "rejection": ErrandsAlgorithm(replace(RejectionSettings(), keep="final"), _imitation, round_share=1.0),
}
"""By name. GRPO as in ``python -m benchmarks credit``. Others have its learning rate if they step as often,
otherwise that of their presets, which train whole passes."""
