"""Estimators in the key-door world with its known truth: agreement with it, and sampled actions to 80 % success.

Each estimator is trained with its best learning rate and batch size, chosen from one grid on tuning seeds, which
are not reported. Success is the exact value of the start states, without sampling noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np

from benchmarks.credit.estimator import Estimator, rank_correlation, turn_credit
from benchmarks.credit.key_door import key_door
from benchmarks.credit.mdp import Floats, state_values
from benchmarks.credit.measurements import Agreement, Hyperparameters, PartResults, TrainingRun
from benchmarks.credit.policy import SoftmaxPolicy, policy_of_skill, success_rate
from benchmarks.credit.tabular_rollouts import exact_changes, sample_groups
from benchmarks.result_cache import ResultCache

TUNING_SEED = 1_000_000
"""The first tuning seed."""


@dataclass(frozen=True, slots=True)
class KeyDoorSettings:
    """Everything that determines a result, except estimator and seed."""

    skills: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    """Success of the policies whose turns are credited."""
    agreement_groups: int = 8
    group_size: int = 8
    initial_success: float = 0.04
    """Success at the start of training. Random actions solve one episode in 600, a supervised policy more."""
    target: float = 0.8
    budget: int = 30_000
    """Actions that training may sample until the target."""
    min_actions: int = 8_000
    """Actions that training samples in any case, for the learning curve."""
    learning_rates: tuple[float, ...] = (0.1, 0.3, 0.6)
    groups: tuple[int, ...] = (2, 4)
    """Per iteration."""
    tuning_seeds: int = 10
    tuning_budget: int = 20_000


def measure_key_door(
    results_cache: ResultCache,
    estimators: Sequence[Estimator],
    seeds: Sequence[int],
    settings: KeyDoorSettings,
    *,
    on_done: Callable[[], None] = lambda: None,
) -> PartResults:
    """All measurements; calls ``on_done`` after each of estimators · (1 + 2 · seeds)."""
    results = PartResults("key_door")
    for estimator in estimators:
        tune = partial(tune_hyperparameters, estimator, settings)
        best = results_cache.get(estimator.key("choice", 0), Hyperparameters, tune)
        results.hyperparameters[estimator.name] = best
        on_done()
        agreements = results.agreements[estimator.name] = []
        runs = results.runs[estimator.name] = []
        for seed in seeds:
            measure = partial(measure_agreement, estimator, seed, settings)
            agreements.append(results_cache.get(estimator.key("rank", seed), Agreement, measure))
            on_done()
            run = partial(train, estimator, seed, best, settings)
            runs.append(results_cache.get(estimator.key("practice", seed), TrainingRun, run))
            on_done()
    return results


_world = cache(key_door)


@cache
def _policy(success: float) -> Floats:
    """A policy with this success rate."""
    return policy_of_skill(_world(), success)


def measure_agreement(estimator: Estimator, seed: int, settings: KeyDoorSettings) -> Agreement:
    """Agreement of credit with exact changes of value, for policies of several skills."""
    mdp = _world()
    by_skill, tokens = [], 0
    for index, skill in enumerate(settings.skills):
        policy = _policy(skill)
        rng = np.random.default_rng([seed, index])
        shape = (settings.agreement_groups, settings.group_size)
        sampled = sample_groups(mdp, policy, rng, shape=shape, continuations=estimator.continuations)
        changes = exact_changes(mdp, state_values(mdp, policy), sampled.rollouts)[sampled.rollouts.mask()]
        by_skill.append((skill, rank_correlation(turn_credit(estimator, sampled.groups), changes)))
        tokens += sampled.tokens
    mean = float(np.mean([correlation for _, correlation in by_skill]))
    return Agreement(mean, tuple(by_skill), tokens)


def tune_hyperparameters(estimator: Estimator, settings: KeyDoorSettings) -> Hyperparameters:
    """The hyperparameters that reach the target with the fewest actions on tuning seeds."""
    candidates = []
    seeds = range(TUNING_SEED, TUNING_SEED + settings.tuning_seeds)
    for grid in product(settings.learning_rates, settings.groups, estimator.training_continuations):
        tried = Hyperparameters(*grid, tokens=0.0)
        runs = [train(estimator, seed, tried, settings, is_tuning=True) for seed in seeds]
        candidates.append(Hyperparameters(*grid, tokens=float(np.mean([run.tokens for run in runs]))))
    return min(candidates, key=lambda candidate: candidate.tokens)


def train(
    estimator: Estimator,
    seed: int,
    hyperparameters: Hyperparameters,
    settings: KeyDoorSettings,
    *,
    is_tuning: bool = False,
) -> TrainingRun:
    """Training to the target, and on to ``min_actions``. Tuning ends at the target, and has a smaller budget."""
    mdp = _world()
    policy = SoftmaxPolicy(_policy(settings.initial_success), hyperparameters.learning_rate)
    rng = np.random.default_rng([seed, len(settings.skills)])
    budget, min_actions = (settings.tuning_budget, 0) if is_tuning else (settings.budget, settings.min_actions)
    tokens, reached = 0, None
    curve = [(0, success_rate(mdp, policy.probabilities))]
    while tokens < (budget if reached is None else min_actions):
        sampled = sample_groups(
            mdp,
            policy.probabilities,
            rng,
            shape=(hyperparameters.groups, settings.group_size),
            continuations=hyperparameters.continuations,
        )
        policy.step(*sampled.states_and_actions(), turn_credit(estimator, sampled.groups))
        tokens += sampled.tokens
        curve.append((tokens, success_rate(mdp, policy.probabilities)))
        if reached is None and curve[-1][1] >= settings.target and tokens <= budget:
            reached = tokens
    return TrainingRun(budget if reached is None else reached, reached is not None, tuple(curve))
