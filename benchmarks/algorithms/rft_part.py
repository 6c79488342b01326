"""Reinforcement from 10, 30 and 100 tasks in errands, beside the same training with a reward that is chance.

The random reward pays as often as the model succeeded before. All trainings of one number of examples practise the
same tasks; seeds differ in attempts and order. Success is that of sampled attempts at training templates in worlds
that practice never meets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from benchmarks.algorithms.errands_part import EXAM_SEED
from benchmarks.algorithms.meter import written_in
from benchmarks.credit import Errands, ErrandsSettings
from benchmarks.ledger import Entry, Ledger
from upturn.deployment import Interval
from upturn.loop.rollouts import RolloutPlan
from upturn.loop.trainers import over_seeds, rounds_of
from upturn.records import Evaluation, Result, Trajectory, record
from upturn.rewards import acceptance_with_format, random_acceptance
from upturn.training import ScoredGroup
from upturn.training.algorithms import rft
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.runs import RunOptions

RewardName = Literal["true", "random"]
REWARDS: tuple[RewardName, ...] = ("true", "random")
_EXAMPLES_SEED = 44_000


def _training() -> GrpoSettings:
    section = rft.RftSettings()
    return GrpoSettings(
        iterations=section.iterations,
        minibatches=section.minibatches,
        objective=section.objective,
        optimiser=section.optimiser,
        evaluate_every=None,
        keep="final",
    )


@dataclass(frozen=True, slots=True)
class RftSettings:
    """Everything that decides a result, beside examples, reward and seed."""

    errands: ErrandsSettings = field(default_factory=ErrandsSettings)
    examples: tuple[int, ...] = (10, 30, 100)
    training: GrpoSettings = field(default_factory=_training)
    tasks: int = 10
    """Of one iteration."""
    attempts: int = 8


@record
class Examined:
    """A model's examination."""

    outcomes: tuple[float, ...]
    """1 or 0 of each task."""
    tokens: int
    """Sampled in training."""


@dataclass(frozen=True, slots=True)
class RftFindings:
    """All trainings."""

    before: Examined
    after: Mapping[RewardName, Mapping[int, Sequence[Examined]]]
    """By reward and number of examples, then by seed."""

    def gain(self, reward: RewardName, examples: int) -> Interval:
        """Over before, in success; over seeds and tasks."""
        return over_seeds(self._outcomes(reward, examples) - np.asarray(self.before.outcomes))

    def over_random(self, examples: int) -> Interval:
        """Of the true reward over the random one."""
        return over_seeds(self._outcomes("true", examples) - self._outcomes("random", examples))

    def _outcomes(self, reward: RewardName, examples: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.array([each.outcomes for each in self.after[reward][examples]])

    def results(self) -> list[Result]:
        """Figures of the table."""
        sizes = list(self.after["true"])
        found = {f"rft_gain_{reward}_{size}": self.gain(reward, size) for reward in self.after for size in sizes}
        found |= {f"rft_over_random_{size}": self.over_random(size) for size in sizes}
        seeds = len(self.after["true"][sizes[0]])
        return [
            Result("rft_success_before", float(np.mean(self.before.outcomes)), "share"),
            *(Result(name, each.mean, "share", each.low, each.high, seeds) for name, each in found.items()),
        ]


def measure_rft(
    ledger: Ledger,
    folder: Path,
    seeds: Sequence[int],
    *,
    settings: RftSettings,
    on_done: Callable[[], None] = lambda: None,
) -> RftFindings:
    """Measures what is not in the ledger yet; ``on_done`` after each of seeds · examples · rewards.

    The model that everything starts from lies in ``folder``; it is made where it is missing. Uses torch with the
    threads that the caller has set.
    """
    errands = Errands(folder, settings.errands)
    before = ledger.measured(Entry("rft", "before", 0), Examined, partial(_before, errands))
    rate = float(np.mean(before.outcomes))
    after: dict[RewardName, dict[int, list[Examined]]] = {reward: {} for reward in REWARDS}
    for size in settings.examples:
        for reward in REWARDS:
            after[reward][size] = []
            for seed in seeds:
                entry = Entry("rft", f"{reward}-{size}", seed)
                measure = partial(train, errands, size, reward, seed=seed, rate=rate, settings=settings)
                after[reward][size].append(ledger.measured(entry, Examined, measure))
                on_done()
    return RftFindings(before, after)


def _before(errands: Errands) -> Examined:
    return Examined(tuple(errands.evaluate_heldout(errands.worker(), seed=EXAM_SEED).outcomes()), 0)


def train(
    errands: Errands, size: int, reward: RewardName, *, seed: int, rate: float, settings: RftSettings
) -> Examined:
    """One training, examined. ``rate``: at which the random reward pays."""
    families = errands.settings.families
    stream = errands.kit.tasks(seed=_EXAMPLES_SEED, split="train", families=families)
    examples, worker = list(islice(stream, size)), errands.worker()
    practice = RolloutPlan(f"rft/{seed}", seed, settings.attempts, both=_earned(reward, seed=seed, rate=rate))
    tokens = 0

    def collect(iteration: int, /) -> list[ScoredGroup]:
        nonlocal tokens
        tasks = rounds_of(examples, settings.tasks, seed, iteration)
        groups = worker.sample_groups(tasks, iteration, practice, errands.sink)
        tokens += written_in(groups)
        return groups

    with TemporaryDirectory() as name:
        run_grpo(worker.model, collect, settings.training, RunOptions(seed, Path(name)))
    return Examined(tuple(errands.evaluate_heldout(worker, seed=EXAM_SEED).outcomes()), tokens)


def _earned(reward: RewardName, *, seed: int, rate: float) -> Callable[[Trajectory, Evaluation], float | None]:
    if reward == "true":
        return acceptance_with_format
    return lambda trajectory, _: random_acceptance(trajectory, rate=rate, seed=seed)
