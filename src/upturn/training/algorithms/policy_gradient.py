"""The policy gradient without a critic: rollouts of the current weights, scored in groups, as one weight stream.

Order of an iteration: groups are sampled and their advantages computed (``collection``, ``advantages``), each
written token gets its turn's advantage and its scale (``aggregation``), and the rows become optimiser steps
(``policy_update``). Rows are dropped if their gradient is exactly 0, but still count in the denominator; with a KL
term, or a teacher (``teacher_signal``), no row is dropped for its rewards."""

from upturn.agents import call_counts, fork_counts
from upturn.agents.context import COMPACTED
from upturn.errors import TrainingError
from upturn.training.advantage import Advantage, mean_return, unscorable_count
from upturn.training.advantages import AdvantageSettings, Constrained, Multipliers, advantage_of
from upturn.training.algorithms.policy_update import PolicyUpdate, check_both_or_neither, rollout_rows
from upturn.training.algorithms.teacher_signal import Teacher
from upturn.training.data import Collect, CollectedGroups, Collector, ComparedGroup, Refill
from upturn.training.optimisation import count_sampled, is_masked
from upturn.training.policy_settings import ObjectiveSettings, PolicyGradientSettings
from upturn.training.reward_models import proxy_metrics
from upturn.training.row import TrainingRow, policy_rows, written_count
from upturn.training.scorer import Scorer
from upturn.training.stream import State, Unit


class PolicyGradient:
    """Iterations as weight streams. Single use: one run."""

    def __init__(  # noqa: PLR0913  # five optional inputs, each required by a setting
        self,
        collect: Collect,
        settings: PolicyGradientSettings,
        seed: int,
        *,
        advantage: Advantage | None = None,
        refill: Refill | None = None,
        scorer: Scorer | None = None,
        reference: Scorer | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        """``advantage``: a custom estimator; None = that of the settings.

        ``refill``: for dynamic sampling. ``scorer``: of the current weights, for mismatch settings. ``reference``:
        for a KL term. ``teacher``: see ``teacher_signal``; None = rewards only. Raises TrainingError where one is
        missing, or has no effect."""
        check_both_or_neither("dynamic_sampling", settings.dynamic_sampling, "refill", refill)
        if advantage is not None and settings.advantage != AdvantageSettings():
            raise TrainingError(
                "an advantage of your own leaves settings.advantage without effect; keep its defaults, or leave "
                "advantage out"
            )
        self.settings = settings
        budgets, estimator = settings.advantage.lagrangian, advantage or advantage_of(settings.advantage)
        self._multipliers = None if budgets is None else Multipliers(budgets)
        self._collector = Collector(
            collect,
            estimator if self._multipliers is None else Constrained(estimator, self._multipliers),
            settings.advantage.scale,
            sampling=settings.dynamic_sampling,
            refill=refill,
        )
        self._is_taught = teacher is not None
        self._update = PolicyUpdate(settings, seed, scorer=scorer, reference=reference, teacher=teacher)

    def unit(self, index: int) -> Unit:
        """Returns iteration ``index``. Raises TrainingError for no trajectories, or unusable ones."""
        groups = self._collector.collect(index)
        rows = [self._group_rows(compared) for compared in groups.used]
        counts = count_sampled((compared.group for compared in groups.used), self.settings.objective)
        update = self._update.unit(index, rows, counts)
        filtered = len(groups.sampled) - sum(compared.advantages.is_informative for compared in groups.used)
        metrics = {**sampled_metrics(groups, self.settings.objective), "filtered_groups": float(filtered)}
        if self._multipliers is not None:
            metrics |= self._multipliers.update(compared.group for compared in groups.sampled)
        return Unit(update.minibatches, {**metrics, **update.metrics})

    def state(self) -> State:
        """Returns the state other than weights and optimiser: of an adaptive coefficient and of multipliers."""
        multipliers = {} if self._multipliers is None else self._multipliers.state()
        return {**self._update.state(), **multipliers}

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``."""
        self._update.load_state(state)
        if self._multipliers is not None:
            self._multipliers.load_state({name: float(value) for name, value in state.items()})

    def _group_rows(self, compared: ComparedGroup) -> list[TrainingRow]:
        """The rows of the rollouts that have a gradient."""
        return [
            row
            for member, turns in zip(compared.group.members, compared.advantages.turns, strict=True)
            if not is_masked(member.trajectory, self.settings.objective)
            for row in rollout_rows(
                policy_rows(member.trajectory, turns), self.settings.objective, is_taught=self._is_taught
            )
        ]


def sampled_metrics(collected: CollectedGroups, settings: ObjectiveSettings) -> dict[str, float]:
    """Returns the metrics of all sampled groups, including dropped ones."""
    groups = [compared.group for compared in collected.sampled]
    trajectories = [member.trajectory for group in groups for member in group.members]
    forks, calls = fork_counts(trajectories), call_counts(trajectories)
    metrics = {
        "trajectories": float(len(trajectories)),
        "mean_return": mean_return(groups),
        "groups": float(len(groups)),
        "unscorable": float(unscorable_count(groups)),
        "forks": float(forks.total()),
        "compactions": float(forks[COMPACTED]),
        "refused_outputs": float(calls.refused),
        "repaired_calls": float(calls.repaired),
        "dropped_calls": float(calls.dropped),
        "written_tokens": float(sum(map(written_count, trajectories))),
        **proxy_metrics(groups),
    }
    if settings.mask_truncated:
        metrics["masked_truncated"] = float(sum(is_masked(trajectory, settings) for trajectory in trajectories))
    return metrics if collected.rounds is None else {**metrics, "sampling_rounds": float(collected.rounds)}
