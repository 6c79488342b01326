"""Estimators in the key-door world, where the truth is known: agreement with it, and sampled actions to 80 %.

Each contender learns with its own learning rate and batch size, chosen from one grid on seeds that are not
reported. Success is the exact value of the start, so no contender is lucky in its examination.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import numpy as np

from benchmarks.credit.crediting import agreement, credit
from benchmarks.credit.estimator import Contender
from benchmarks.credit.key_door import key_door
from benchmarks.credit.mdp import Floats, state_values
from benchmarks.credit.measurements import Choice, PartFindings, Practised, Ranked
from benchmarks.credit.policy import SoftmaxPolicy, policy_of_skill, success_rate
from benchmarks.credit.tabular_rollouts import exact_changes, play
from benchmarks.result_cache import Ledger

PART = "key_door"
CHOICE_SEED = 1_000_000
"""The first of the seeds that settings are chosen on."""


@dataclass(frozen=True, slots=True)
class KeyDoorSettings:
    """Everything that decides a result, beside contender and seed."""

    skills: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    """Success of the policies whose turns are credited."""
    ranked_groups: int = 8
    attempts: int = 8
    """In a group."""
    first_success: float = 0.04
    """Where learning starts: chance alone solves one attempt in 600, which no supervised policy would do."""
    target: float = 0.8
    budget: int = 30_000
    """Actions that learning may sample until the target."""
    shown: int = 8_000
    """Actions that learning samples in any case, to draw its course."""
    learning_rates: tuple[float, ...] = (0.1, 0.3, 0.6)
    groups: tuple[int, ...] = (2, 4)
    """Of an iteration."""
    choice_seeds: int = 10
    choice_budget: int = 20_000


def measure_key_door(
    ledger: Ledger,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    settings: KeyDoorSettings,
    *,
    on_done: Callable[[], None] = lambda: None,
) -> PartFindings:
    """Measures what is not in the ledger yet; ``on_done`` after each of contenders · (1 + 2 · seeds) steps."""
    found = PartFindings(PART)
    for contender in contenders:
        name = contender.name
        chosen = ledger.measured(contender.entry("choice", 0), Choice, partial(choose, contender, settings))
        found.choices[name], found.ranked[name], found.practised[name] = chosen, [], []
        on_done()
        for seed in seeds:
            ranked = partial(rank, contender, seed, settings)
            found.ranked[name].append(ledger.measured(contender.entry("rank", seed), Ranked, ranked))
            on_done()
            course = partial(practise, contender, seed, chosen, settings)
            found.practised[name].append(ledger.measured(contender.entry("practice", seed), Practised, course))
            on_done()
    return found


_world = cache(key_door)


@cache
def _policy(success: float) -> Floats:
    """A policy that succeeds this often."""
    return policy_of_skill(_world(), success)


def rank(contender: Contender, seed: int, settings: KeyDoorSettings) -> Ranked:
    """Credit against exact changes of value, under policies of growing skill."""
    mdp = _world()
    by_skill, tokens = [], 0
    for place, skill in enumerate(settings.skills):
        policy = _policy(skill)
        rng = np.random.default_rng([seed, place])
        shape = (settings.ranked_groups, settings.attempts)
        played = play(mdp, policy, rng, shape=shape, continuations=contender.continuations)
        made = np.arange(mdp.horizon) < played.walk.lengths[:, None]
        truth = exact_changes(mdp, state_values(mdp, policy), played.walk)[made]
        by_skill.append((skill, agreement(credit(contender, played.groups), truth)))
        tokens += played.tokens
    return Ranked(float(np.mean([each for _, each in by_skill])), tuple(by_skill), tokens)


def choose(contender: Contender, settings: KeyDoorSettings) -> Choice:
    """What reaches the target with the fewest actions, on seeds of their own."""
    found = []
    for grid in product(settings.learning_rates, settings.groups, contender.practised):
        tried = Choice(*grid, tokens=0.0)
        seeds = range(CHOICE_SEED, CHOICE_SEED + settings.choice_seeds)
        courses = [practise(contender, seed, tried, settings, is_trial=True) for seed in seeds]
        found.append(Choice(*grid, tokens=float(np.mean([course.tokens for course in courses]))))
    return min(found, key=lambda each: each.tokens)


def practise(
    contender: Contender, seed: int, choice: Choice, settings: KeyDoorSettings, *, is_trial: bool = False
) -> Practised:
    """One policy's course to the target, and on to what is shown. A trial ends there, and early."""
    mdp = _world()
    policy = SoftmaxPolicy(_policy(settings.first_success), choice.learning_rate)
    rng = np.random.default_rng([seed, len(settings.skills)])
    budget, shown = (settings.choice_budget, 0) if is_trial else (settings.budget, settings.shown)
    tokens, reached = 0, None
    curve = [(0, success_rate(mdp, policy.probabilities))]
    while tokens < (budget if reached is None else shown):
        shape = (choice.groups, settings.attempts)
        played = play(mdp, policy.probabilities, rng, shape=shape, continuations=choice.continuations)
        policy.learn(*played.written_turns(), credit(contender, played.groups))
        tokens += played.tokens
        curve.append((tokens, success_rate(mdp, policy.probabilities)))
        if reached is None and curve[-1][1] >= settings.target and tokens <= budget:
            reached = tokens
    return Practised(budget if reached is None else reached, reached is not None, tuple(curve))
