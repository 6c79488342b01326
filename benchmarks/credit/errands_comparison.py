"""Estimators in errands, level 3, where the truth is measured: agreement with it, and sampled tokens to 80 %.

What a turn changed is the difference of two state values, each the mean of many continuations; what two halves of
them disagree about is noise that no estimator can agree with. Success is that of sampled attempts at training
templates in worlds that practice never meets.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.credit.crediting import agreement, credit
from benchmarks.credit.errands_setup import Errands, ErrandsSettings, continuations, reward_of
from benchmarks.credit.estimator import Contender
from benchmarks.credit.mdp import Floats
from benchmarks.credit.measurements import Ceiling, PartFindings, Practised, Ranked, Truth
from benchmarks.result_cache import Entry, Ledger
from upturn.errors import MeasurementError
from upturn.loop import Purpose
from upturn.loop.rollouts import Continued, PolicyWorker, RolloutPlan, TaskSampler, continued, measure_values
from upturn.training import ScoredGroup

PART = "errands"
_RANKED_SEED = 42_000
_ALL = slice(None)
_FURTHER_SEED = 1_000_003
"""Added where continuations have to be independent of the truth's."""


def measure_errands(
    ledger: Ledger,
    folder: Path,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    *,
    settings: ErrandsSettings,
    on_done: Callable[[], None] = lambda: None,
) -> PartFindings:
    """Measures what is not in the ledger yet; ``on_done`` after each of seeds · (1 + 2 · contenders) steps.

    The model that everything starts from lies in ``folder``; it is made where it is missing. Uses torch with the
    threads that the caller has set.
    """
    found = PartFindings(PART)
    errands = Errands(folder, settings)
    for seed in seeds:
        truth = ledger.measured(Entry("truth", "all", seed), Truth, partial(measure_truth, errands, seed))
        found.ceilings.append(truth.ceiling)
        on_done()
        for contender in contenders:
            name = contender.name
            ranked = partial(rank, errands, contender, seed, truth=truth)
            found.ranked.setdefault(name, []).append(ledger.measured(contender.entry("rank", seed), Ranked, ranked))
            on_done()
            course = partial(practise, errands, contender, seed)
            practised = ledger.measured(contender.entry("practice", seed), Practised, course)
            found.practised.setdefault(name, []).append(practised)
            on_done()
    return found


def measure_truth(errands: Errands, seed: int) -> Truth:
    """What each turn of the seed's attempts changed, and how well that is known."""
    worker = errands.worker()
    groups = _groups(errands, worker, seed)
    how = continuations(errands.settings.continuations)
    found = continued(errands.runtime, worker.version, groups, Purpose(f"truth/{seed}", seed, 1.0), how=how)
    half = how.count // 2
    whole, first, second = (changes(groups, found, part) for part in (_ALL, slice(half), slice(half, None)))
    is_known = np.isfinite(first + second)
    halves = agreement(first[is_known], second[is_known])
    reliability = max(0.0, 2 * halves / (1 + halves))
    ceiling = Ceiling(halves, reliability, reliability**0.5, int(is_known.sum()), found.tokens)
    measured = tuple(float(value) if known else None for value, known in zip(whole, is_known, strict=True))
    return Truth(measured, _fingerprint(groups), ceiling)


def rank(errands: Errands, contender: Contender, seed: int, *, truth: Truth) -> Ranked:
    """Credit against the truth. Values that a contender needs are measured anew: its luck is not the truth's."""
    worker = errands.worker()
    groups = _groups(errands, worker, seed)
    tokens = _written(groups)
    if contender.continuations:
        purpose = Purpose(f"rank/{contender.name}/{seed}", seed + _FURTHER_SEED, 1.0)
        how = continuations(contender.continuations)
        measured = measure_values(errands.runtime, worker.version, groups, purpose, how=how)
        groups, tokens = measured.groups, tokens + measured.tokens
    if _fingerprint(groups) != truth.attempts:
        raise MeasurementError(
            f"the attempts of seed {seed} are not those whose truth was measured; move the folder away and begin "
            "again: one machine, one number of threads and one version of the libraries give the same attempts"
        )
    truths = np.array([np.nan if value is None else value for value in truth.changes])
    is_known = np.isfinite(truths)
    return Ranked(agreement(credit(contender, groups)[is_known], truths[is_known]), (), tokens)


def practise(errands: Errands, contender: Contender, seed: int) -> Practised:
    """One model's course to the target or to the end of the budget."""
    from upturn.config import OptimiserSettings
    from upturn.training.algorithms import PolicyGradient
    from upturn.training.algorithms.grpo import GrpoSettings
    from upturn.training.optimisation import Trainer

    wanted = errands.settings
    worker = errands.worker()
    source = _Source(errands, contender, worker, seed)
    settings = GrpoSettings(advantage=contender.settings, evaluate_every=None, keep="final")
    trainer = Trainer(worker.model, OptimiserSettings(learning_rate=wanted.learning_rate))
    algorithm = PolicyGradient(source.groups, settings, seed)
    curve = [(0, errands.evaluate_heldout(worker, seed=seed).rate())]
    iteration = 0
    while source.tokens < wanted.budget and curve[-1][1] < wanted.target:
        for minibatch in algorithm.unit(iteration).minibatches:
            trainer.step(minibatch)
        iteration += 1
        if iteration % wanted.evaluate_every == 0 or source.tokens >= wanted.budget:
            curve.append((source.tokens, errands.evaluate_heldout(worker, seed=seed).rate()))
    tokens, success = curve[-1]
    is_reached = success >= wanted.target and tokens <= wanted.budget
    return Practised(tokens if is_reached else wanted.budget, is_reached, tuple(curve))


class _Source:
    """Where practice gets its groups from, and what they took."""

    def __init__(self, errands: Errands, contender: Contender, worker: PolicyWorker, seed: int) -> None:
        self.tokens = 0
        """Sampled so far, those of continuations included."""
        self._errands = errands
        self._continuations = contender.practised[0]
        self._worker = worker
        self._seed = seed
        families = dict.fromkeys(errands.settings.families, 1.0)
        self._tasks = TaskSampler(errands.kit, families, errands.settings.tasks, seed=seed)
        self._practice = RolloutPlan(
            f"practice/{contender.name}/{seed}", seed, errands.settings.attempts, reward_of
        )

    def groups(self, iteration: int, /) -> list[ScoredGroup]:
        """With state values where the contender needs them."""
        worker = self._worker
        tasks = self._tasks.tasks(iteration)
        found = worker.sample_groups(tasks, iteration, self._practice, self._errands.sink)
        self.tokens += _written(found)
        if self._continuations:
            purpose = Purpose(
                f"{self._practice.run}/values/{iteration}", self._seed + _FURTHER_SEED + iteration, 1.0
            )
            how = continuations(self._continuations)
            measured = measure_values(self._errands.runtime, worker.version, found, purpose, how=how)
            found = measured.groups
            self.tokens += measured.tokens
        return found


def changes(groups: Sequence[ScoredGroup], found: Continued, part: slice) -> Floats:
    """``(N,)``: r + V̂(s′) − V̂(s) of each turn, from a part of each state's continuations.

    Unscorable members and turns beside a state that was not measured are NaN.
    """
    listed: list[float] = []
    for group, of_group in zip(groups, found.returns, strict=True):
        for member, states in zip(group.members, of_group, strict=True):
            if states is None or member.turn_rewards is None:
                listed += [np.nan] * len(member.trajectory.turns)
                continue
            values = [*(fmean(each[part]) if each[part] else np.nan for each in states), 0.0]
            rewards = member.turn_rewards
            listed += [
                reward + after - before for reward, (before, after) in zip(rewards, pairwise(values), strict=True)
            ]
    return np.array(listed)


def _groups(errands: Errands, worker: PolicyWorker, seed: int) -> list[ScoredGroup]:
    """The attempts whose turns are credited: the same whenever they are made."""
    stream = errands.kit.tasks(seed=_RANKED_SEED + seed, split="train", families=errands.settings.families)
    tasks = list(islice(stream, errands.settings.ranked_tasks))
    practice = RolloutPlan(f"ranked/{seed}", seed, errands.settings.attempts, reward_of)
    return worker.sample_groups(tasks, 0, practice, errands.sink)


def _fingerprint(groups: Sequence[ScoredGroup]) -> str:
    """Of what was written in all turns."""
    texts = [turn.text for group in groups for member in group.members for turn in member.trajectory.turns]
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=8).hexdigest()


def _written(groups: Sequence[ScoredGroup]) -> int:
    return sum(member.trajectory.usage.written_tokens for group in groups for member in group.members)
