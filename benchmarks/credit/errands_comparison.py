"""Estimators in errands, level 3, with a measured truth: agreement with it, and sampled tokens to 80 % success.

The true change of a turn is the difference of two state values, each the mean of many continuations. The difference
between two halves of the continuations is noise that no estimator can agree with. Success is that of sampled
rollouts on training templates in worlds that training never uses.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.credit.errands_setup import ErrandsSettings, ErrandsSetup, continuations, written_tokens
from benchmarks.credit.estimator import Estimator, rank_correlation, turn_credit
from benchmarks.credit.mdp import Floats
from benchmarks.credit.measurements import Agreement, Ceiling, PartResults, TrainingRun, Truth
from benchmarks.result_cache import CacheKey, ResultCache
from upturn.errors import MeasurementError
from upturn.loop import Purpose
from upturn.loop.rollouts import ContinuationReturns, PolicyWorker, measure_values, sample_continuations
from upturn.training import ScoredGroup

_AGREEMENT_SEED = 42_000
_INDEPENDENT_SEED = 1_000_003
"""Added where continuations have to be independent of the truth's."""


def measure_errands(
    cache: ResultCache,
    folder: Path,
    estimators: Sequence[Estimator],
    seeds: Sequence[int],
    *,
    settings: ErrandsSettings,
    on_done: Callable[[], None] = lambda: None,
) -> PartResults:
    """All measurements; calls ``on_done`` after each of seeds · (1 + 2 · estimators).

    ``folder``: of the model, which is trained when first needed. Uses torch with the threads that the caller has
    set.
    """
    names = [estimator.name for estimator in estimators]
    results = PartResults("errands", {name: [] for name in names}, {name: [] for name in names})
    setup = ErrandsSetup(folder, settings)
    for seed in seeds:
        truth = cache.get(CacheKey("truth", "all", seed), Truth, partial(measure_truth, setup, seed))
        results.ceilings.append(truth.ceiling)
        on_done()
        for estimator in estimators:
            measure = partial(measure_agreement, setup, estimator, seed, truth=truth)
            results.agreements[estimator.name].append(cache.get(estimator.key("rank", seed), Agreement, measure))
            on_done()
            run = partial(train, setup, estimator, seed)
            results.runs[estimator.name].append(cache.get(estimator.key("practice", seed), TrainingRun, run))
            on_done()
    return results


def measure_truth(setup: ErrandsSetup, seed: int) -> Truth:
    """The change of value in each turn of the seed's rollouts, and its reliability."""
    worker = setup.new_worker()
    groups = _agreement_groups(setup, worker, seed)
    spec = continuations(setup.settings.continuations)
    states = sample_continuations(
        setup.runtime, worker.version, groups, Purpose(f"truth/{seed}", seed, 1.0), spec=spec
    )
    half = spec.count // 2
    whole, first, second = (
        value_changes(groups, states, part) for part in (slice(None), slice(half), slice(half, None))
    )
    is_known = np.isfinite(first + second)
    halves = rank_correlation(first[is_known], second[is_known])
    reliability = max(0.0, 2 * halves / (1 + halves))
    ceiling = Ceiling(halves, reliability, reliability**0.5, int(is_known.sum()), states.tokens)
    changes = tuple(float(value) if known else None for value, known in zip(whole, is_known, strict=True))
    return Truth(changes, _digest(groups), ceiling)


def measure_agreement(setup: ErrandsSetup, estimator: Estimator, seed: int, *, truth: Truth) -> Agreement:
    """Agreement of credit with the truth. State values come from continuations that the truth does not use."""
    worker = setup.new_worker()
    groups = _agreement_groups(setup, worker, seed)
    tokens = written_tokens(groups)
    if estimator.continuations:
        purpose = Purpose(f"rank/{estimator.name}/{seed}", seed + _INDEPENDENT_SEED, 1.0)
        spec = continuations(estimator.continuations)
        measured = measure_values(setup.runtime, worker.version, groups, purpose, spec=spec)
        groups, tokens = measured.groups, tokens + measured.tokens
    if _digest(groups) != truth.rollouts:
        raise MeasurementError(
            f"the rollouts of seed {seed} are not those of the stored truth; move the folder away and start again: "
            "only one machine, number of threads and version of the libraries gives the same rollouts"
        )
    changes = np.array([np.nan if value is None else value for value in truth.changes])
    is_known = np.isfinite(changes)
    credit = turn_credit(estimator, groups)
    return Agreement(rank_correlation(credit[is_known], changes[is_known]), (), tokens)


def train(setup: ErrandsSetup, estimator: Estimator, seed: int) -> TrainingRun:
    """Training to the target or to the end of the budget."""
    from upturn.config import OptimiserSettings
    from upturn.training.algorithms import PolicyGradient
    from upturn.training.algorithms.grpo import GrpoSettings
    from upturn.training.optimisation import Trainer

    settings = setup.settings
    worker = setup.new_worker()
    collector = _Collector(setup, estimator, worker, seed)
    grpo = GrpoSettings(advantage=estimator.settings, evaluate_every=None, keep="final")
    trainer = Trainer(worker.model, OptimiserSettings(learning_rate=settings.learning_rate))
    algorithm = PolicyGradient(collector.collect, grpo, seed)
    curve = [(0, setup.evaluate_heldout(worker, seed=seed).rate())]
    iteration = 0
    while collector.tokens < settings.budget and curve[-1][1] < settings.target:
        for minibatch in algorithm.unit(iteration).minibatches:
            trainer.step(minibatch)
        iteration += 1
        if iteration % settings.evaluate_every == 0 or collector.tokens >= settings.budget:
            curve.append((collector.tokens, setup.evaluate_heldout(worker, seed=seed).rate()))
    tokens, success = curve[-1]
    is_reached = success >= settings.target and tokens <= settings.budget
    return TrainingRun(tokens if is_reached else settings.budget, is_reached, tuple(curve))


class _Collector:
    """Samples training groups and counts their tokens."""

    def __init__(self, setup: ErrandsSetup, estimator: Estimator, worker: PolicyWorker, seed: int) -> None:
        self.tokens = 0
        """Sampled so far, with those of continuations."""
        self._setup = setup
        self._continuations = estimator.training_continuations[0]
        self._worker = worker
        self._seed = seed
        self._tasks = setup.new_task_sampler(seed)
        self._spec = setup.rollout_spec(f"practice/{estimator.name}/{seed}", seed)

    def collect(self, iteration: int, /) -> list[ScoredGroup]:
        """The iteration's groups, with state values if the estimator needs them."""
        worker = self._worker
        groups = worker.sample_groups(self._tasks.tasks(iteration), iteration, self._spec, self._setup.sink)
        self.tokens += written_tokens(groups)
        if self._continuations:
            purpose = Purpose(
                f"{self._spec.run}/values/{iteration}", self._seed + _INDEPENDENT_SEED + iteration, 1.0
            )
            spec = continuations(self._continuations)
            measured = measure_values(self._setup.runtime, worker.version, groups, purpose, spec=spec)
            groups = measured.groups
            self.tokens += measured.tokens
        return groups


def value_changes(groups: Sequence[ScoredGroup], states: ContinuationReturns, part: slice) -> Floats:
    """``(N,)``: r + V̂(s′) − V̂(s) of each turn, from a part of each state's continuations.

    NaN for unscorable members and for turns next to a state without continuations.
    """
    changes: list[float] = []
    for group, group_returns in zip(groups, states.returns, strict=True):
        for member, returns in zip(group.members, group_returns, strict=True):
            if returns is None or member.turn_rewards is None:
                changes += [np.nan] * len(member.trajectory.turns)
                continue
            values = [*(fmean(state[part]) if state[part] else np.nan for state in returns), 0.0]
            changes += [
                reward + after - before
                for reward, (before, after) in zip(member.turn_rewards, pairwise(values), strict=True)
            ]
    return np.array(changes)


def _agreement_groups(setup: ErrandsSetup, worker: PolicyWorker, seed: int) -> list[ScoredGroup]:
    """The groups whose turns are credited, the same in every call."""
    stream = setup.kit.tasks(seed=_AGREEMENT_SEED + seed, split="train", families=setup.settings.families)
    tasks = list(islice(stream, setup.settings.agreement_tasks))
    return worker.sample_groups(tasks, 0, setup.rollout_spec(f"ranked/{seed}", seed), setup.sink)


def _digest(groups: Sequence[ScoredGroup]) -> str:
    """Digest of the text of all turns."""
    texts = [turn.text for group in groups for member in group.members for turn in member.trajectory.turns]
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=8).hexdigest()
