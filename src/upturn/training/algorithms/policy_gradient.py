"""The policy gradient without a critic: rollouts of the current weights, scored in groups, as one weight stream.

Order of an iteration: groups are collected and compared (``collection``, ``advantages``), each written token gets
its turn's advantage and its scale (``aggregation``), and the rows become optimiser steps (``policy_update``).
What is left out because its gradient is exactly 0 still counts in the denominator; with a KL term nothing is left
out.
"""

from upturn.agents import fork_counts
from upturn.agents.context import COMPACTED
from upturn.errors import TrainingError
from upturn.training.advantage import Advantage, mean_return, unscorable_count
from upturn.training.advantages import AdvantageSettings, Constrained, Multipliers, advantage_of
from upturn.training.algorithms.policy_update import PolicyUpdate, needs, rollout_rows
from upturn.training.data import Collect, Collection, Collector, ComparedGroup, Refill, Refilling
from upturn.training.optimisation import count_sampled
from upturn.training.policy_settings import ObjectiveSettings, PolicyGradientSettings
from upturn.training.row import TrainingRow, policy_rows, written_count
from upturn.training.scorer import Scorer
from upturn.training.stream import State, Unit


class PolicyGradient:
    """Iterations as weight streams. Single use: one run."""

    def __init__(  # noqa: PLR0913  # four ways into the world, each of which a setting may need
        self,
        collect: Collect,
        settings: PolicyGradientSettings,
        seed: int,
        *,
        advantage: Advantage | None = None,
        refill: Refill | None = None,
        scorer: Scorer | None = None,
        reference: Scorer | None = None,
    ) -> None:
        """``advantage``: an estimator of your own; None = the one that the settings name.

        ``refill`` for dynamic sampling; ``scorer``, of the weights as they are, for mismatch settings;
        ``reference`` for a KL term. Raises TrainingError where one is missing, or given without effect.
        """
        sampling = settings.dynamic_sampling
        needs("dynamic_sampling", sampling, "refill", refill)
        if advantage is not None and settings.advantage != AdvantageSettings():
            raise TrainingError(
                "an advantage of your own leaves settings.advantage without effect; keep its defaults, or leave "
                "advantage out"
            )
        self.settings = settings
        budgets, own = settings.advantage.lagrangian, advantage or advantage_of(settings.advantage)
        self._multipliers = None if budgets is None else Multipliers(budgets)
        self._collector = Collector(
            collect,
            own if self._multipliers is None else Constrained(own, self._multipliers),
            settings.advantage.scale,
            None if sampling is None or refill is None else Refilling(sampling, refill),
        )
        self._update = PolicyUpdate(settings, seed, scorer=scorer, reference=reference)

    def unit(self, index: int) -> Unit:
        """Iteration ``index``. Raises TrainingError when there is nothing, or something unusable, to train on."""
        found = self._collector.collection(index)
        groups = [_group_rows(each, self.settings.objective) for each in found.used]
        update = self._update.unit(index, groups, count_sampled(each.group for each in found.used))
        without = len(found.sampled) - sum(each.advantages.is_informative for each in found.used)
        metrics = {**sampled_metrics(found), "filtered_groups": float(without)}
        if self._multipliers is not None:
            metrics |= self._multipliers.update(each.group for each in found.sampled)
        return Unit(update.minibatches, {**metrics, **update.metrics})

    def state(self) -> State:
        """What a checkpoint must hold beside weights and optimiser; empty without an adaptive coefficient and
        without multipliers."""
        own = {} if self._multipliers is None else self._multipliers.state()
        return {**self._update.state(), **own}

    def load_state(self, state: State) -> None:
        """Goes back to a state that ``state`` gave."""
        self._update.load_state(state)
        if self._multipliers is not None:
            self._multipliers.load_state({name: float(value) for name, value in state.items()})


def _group_rows(compared: ComparedGroup, settings: ObjectiveSettings) -> list[TrainingRow]:
    """The rows of the rollouts that have a gradient."""
    return [
        row
        for member, turns in zip(compared.group.members, compared.advantages.turns, strict=True)
        for row in rollout_rows(policy_rows(member.trajectory, turns), settings)
    ]


def sampled_metrics(found: Collection) -> dict[str, float]:
    """Of all that was sampled, discarded groups included."""
    groups = [each.group for each in found.sampled]
    trajectories = [member.trajectory for group in groups for member in group.members]
    forks = fork_counts(trajectories)
    metrics = {
        "trajectories": float(len(trajectories)),
        "mean_return": mean_return(groups),
        "groups": float(len(groups)),
        "unscorable": float(unscorable_count(groups)),
        "forks": float(forks.total()),
        "compactions": float(forks[COMPACTED]),
        "written_tokens": float(sum(written_count(each) for each in trajectories)),
    }
    return metrics if found.rounds is None else {**metrics, "sampling_rounds": float(found.rounds)}
