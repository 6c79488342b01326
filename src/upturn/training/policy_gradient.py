"""The policy gradient without a critic: rollouts of the current weights, scored in groups, as one weight stream.

Order of an iteration: groups are collected and compared (``collection``, ``advantages``), each written token gets
its turn's advantage and its scale (``aggregation``), the trainer's own log-probs and the reference's are asked for
where the settings need them (``mismatch``, ``kl``), and the groups are split over minibatches, once for each pass.
What is left out because its gradient is exactly 0 still counts in the denominator; with a KL term nothing is left
out.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from upturn.errors import TrainingError
from upturn.training.advantage import Advantage, unscorable_count
from upturn.training.advantages import AdvantageSettings, advantage_of
from upturn.training.aggregation import Sampled, denominator, scales
from upturn.training.batch import written_tokens
from upturn.training.collection import Collect, Collection, Collector, ComparedGroup, Refill, Refilling
from upturn.training.kl import AdaptiveCoefficient, k3
from upturn.training.loss import Objective
from upturn.training.losses import policy_objective
from upturn.training.mismatch import WrittenLogprobs, mismatch
from upturn.training.policy_settings import MismatchSettings, ObjectiveSettings
from upturn.training.row import TrainingRow, policy_rows, written_count
from upturn.training.scorer import Scorer
from upturn.training.settings import GrpoSettings
from upturn.training.stream import NO_STATE, Minibatch, State, Stream, Unit


class PolicyGradient:
    """Iterations as weight streams. Single use: one run."""

    def __init__(  # noqa: PLR0913  # four ways into the world, each of which a setting may need
        self,
        collect: Collect,
        settings: GrpoSettings,
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
        kl, sampling = settings.objective.kl, settings.dynamic_sampling
        _needs("mismatch", settings.mismatch, "scorer", scorer)
        _needs("objective.kl", kl, "reference", reference)
        _needs("dynamic_sampling", sampling, "refill", refill)
        if advantage is not None and settings.advantage != AdvantageSettings():
            raise TrainingError(
                "an advantage of your own leaves settings.advantage without effect; keep its defaults, or leave "
                "advantage out"
            )
        self.settings = settings
        self.seed = seed
        self._collector = Collector(
            collect,
            advantage or advantage_of(settings.advantage),
            settings.advantage.scale,
            None if sampling is None or refill is None else Refilling(sampling, refill),
        )
        self._scorer = scorer
        self._reference = reference
        self._coefficient = (
            AdaptiveCoefficient(kl.coefficient, target=kl.target, horizon=kl.horizon)
            if kl is not None and kl.target is not None and kl.horizon is not None
            else None
        )

    def unit(self, index: int) -> Unit:
        """Iteration ``index``. Raises TrainingError when there is nothing, or something unusable, to train on."""
        found = self._collector.collection(index)
        groups = [_group_rows(each, self.settings.objective) for each in found.used]
        active = [rows for rows in groups if rows]
        metrics = _metrics(found)
        metrics["trained_rows"] = float(sum(map(len, active)))
        if active and self._scorer is not None and self.settings.mismatch is not None:
            metrics |= _recompute(active, self._scorer, self.settings.mismatch)
        objective = policy_objective(
            self.settings.objective, None if self._coefficient is None else self._coefficient.coefficient
        )
        if active and self._reference is not None:
            metrics |= self._refer(active, self._reference)
        return Unit(self._minibatches(index, active, objective, _sampled(found.used)), metrics)

    def state(self) -> State:
        """What a checkpoint must hold beside weights and optimiser; empty without an adaptive coefficient."""
        return NO_STATE if self._coefficient is None else self._coefficient.state()

    def load_state(self, state: State) -> None:
        """Goes back to a state that ``state`` gave."""
        if self._coefficient is not None:
            self._coefficient.load_state({name: float(value) for name, value in state.items()})

    def _refer(self, groups: list[list[TrainingRow]], reference: Scorer) -> dict[str, float]:
        """Gives the rows their reference log-probs; an adaptive coefficient learns from them for the next time.

        Metric ``kl_coefficient``: the one this iteration trains with.
        """
        rows = [row for group in groups for row in group]
        scored = [replace(row, reference_logprobs=found) for row, found in zip(rows, reference(rows), strict=True)]
        _put_back(groups, scored)
        if self._coefficient is None:
            return {}
        used = self._coefficient.coefficient
        self._coefficient.update(_divergence(scored), len({row.trajectory_id for row in rows}))
        return {"kl_coefficient": used}

    def _minibatches(
        self, index: int, groups: Sequence[Sequence[TrainingRow]], objective: Objective, sampled: Sampled
    ) -> list[Minibatch]:
        settings = self.settings
        share = denominator(sampled, settings.objective) / settings.minibatches
        parts = min(settings.minibatches, max(1, len(groups)))
        rng = np.random.default_rng([self.seed, index])
        return [
            [Stream([row for each in part for row in groups[int(each)]], objective, share)]
            for _ in range(settings.passes)
            for part in np.array_split(rng.permutation(len(groups)), parts)
            if len(part)
        ]


def _needs(setting: str, value: object, argument: str, given: object) -> None:
    if (value is None) != (given is None):
        missing, present = (argument, setting) if given is None else (setting, argument)
        raise TrainingError(f"{present} without {missing} does nothing; give both or neither")


def _group_rows(compared: ComparedGroup, settings: ObjectiveSettings) -> list[TrainingRow]:
    """The rows of the rollouts that have a gradient.

    A rollout is taken whole or not at all, since an objective may look at all of it. Without a KL term one whose
    weights are all 0 has no gradient.
    """
    rows: list[TrainingRow] = []
    for member, turns in zip(compared.group.members, compared.advantages.turns, strict=True):
        rollout = policy_rows(member.trajectory, turns)
        if rollout and (settings.kl is not None or any(row.weights.any() for row in rollout)):
            shares = scales([len(row.positions) for row in rollout], settings)
            rows += (
                rollout
                if shares is None
                else [replace(row, scales=share) for row, share in zip(rollout, shares, strict=True)]
            )
    return rows


def _recompute(groups: list[list[TrainingRow]], scorer: Scorer, settings: MismatchSettings) -> dict[str, float]:
    """Gives the rows the trainer's own log-probs as old ones, and corrections; returns how far the sampler is."""
    rows = [row for group in groups for row in group]
    old = scorer(rows)
    tokens = written_tokens(rows)
    found = mismatch(WrittenLogprobs(np.concatenate(old), tokens.old_logprobs, tokens.sequences), settings)
    corrections = np.split(found.corrections, np.cumsum([len(each) for each in old])[:-1])
    _put_back(
        groups,
        [
            replace(row, old_logprobs=logprobs, corrections=correction)
            for row, logprobs, correction in zip(rows, old, corrections, strict=True)
        ],
    )
    return found.metrics


def _put_back(groups: list[list[TrainingRow]], rows: Sequence[TrainingRow]) -> None:
    """Replaces the groups' rows, in order."""
    left = iter(rows)
    for group in groups:
        group[:] = islice(left, len(group))


def _divergence(rows: Sequence[TrainingRow]) -> float:
    """Mean per token of k3 between the policy that sampled and the reference: KL(sampler ‖ reference)."""
    tokens = written_tokens(rows)
    differences = tokens.reference_logprobs.astype(np.float64) - tokens.old_logprobs
    return float(np.mean(k3(differences, np.exp(differences))))


def _sampled(groups: Sequence[ComparedGroup]) -> Sampled:
    lengths = [written_count(member.trajectory) for each in groups for member in each.group.members]
    return Sampled(sum(length > 0 for length in lengths), sum(lengths))


def _metrics(found: Collection) -> dict[str, float]:
    """Of all that was sampled, discarded groups included. ``mean_return``: NaN when nothing could be scored."""
    groups = [each.group for each in found.sampled]
    trajectories = [member.trajectory for group in groups for member in group.members]
    returns = [value for each in found.sampled for value in each.advantages.returns if value is not None]
    metrics = {
        "trajectories": float(len(trajectories)),
        "mean_return": math.fsum(returns) / len(returns) if returns else math.nan,
        "groups": float(len(groups)),
        "filtered_groups": float(len(groups) - sum(each.advantages.is_informative for each in found.used)),
        "unscorable": float(unscorable_count(groups)),
        "forks": float(sum(row.fork_cause is not None for each in trajectories for row in each.rows)),
        "written_tokens": float(sum(written_count(each) for each in trajectories)),
    }
    return metrics if found.rounds is None else {**metrics, "sampling_rounds": float(found.rounds)}
