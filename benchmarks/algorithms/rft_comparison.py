"""Reinforcement fine-tuning on 10, 30 and 100 tasks in errands, compared with a random reward.

The random reward pays as often as the model succeeds before training. All runs with one number of examples use the
same tasks; seeds differ in sampling and order. Success is that of sampled rollouts on training templates in worlds
that training never uses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from benchmarks.algorithms.errands_comparison import EVALUATION_SEED
from benchmarks.credit import ErrandsSettings, ErrandsSetup, written_tokens
from benchmarks.result_cache import CacheKey, ResultCache
from upturn.interval import Interval
from upturn.loop.rollouts import PolicyWorker, RolloutSpec
from upturn.loop.trainers import bootstrap_over_seeds, iteration_tasks
from upturn.records import Evaluation, JsonValue, Result, Trajectory, record
from upturn.rewards import acceptance_with_format, random_acceptance
from upturn.training import ScoredGroup
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.rft import RftSettings
from upturn.training.runs import RunOptions

RewardName = Literal["true", "random"]
REWARDS: tuple[RewardName, ...] = ("true", "random")
_EXAMPLES_SEED = 44_000


def _training() -> GrpoSettings:
    rft = RftSettings()
    return GrpoSettings(
        iterations=rft.iterations,
        minibatches=rft.minibatches,
        objective=rft.objective,
        optimiser=rft.optimiser,
        evaluate_every=None,
        keep="final",
    )


@dataclass(frozen=True, slots=True)
class FewExamplesSettings:
    """Everything that determines a result, except number of examples, reward and seed."""

    setup: ErrandsSettings = field(default_factory=ErrandsSettings)
    examples: tuple[int, ...] = (10, 30, 100)
    training: GrpoSettings = field(default_factory=_training)
    tasks: int = 10
    """Per iteration."""
    group_size: int = 8


@record
class RftRun:
    """Held-out evaluation of a trained model."""

    outcomes: tuple[float, ...]
    """1 or 0 of each task."""
    tokens: int
    """Sampled in training."""


@dataclass(frozen=True, slots=True)
class RftResults:
    """All runs."""

    before: RftRun
    after: Mapping[RewardName, Mapping[int, Sequence[RftRun]]]
    """By reward and number of examples, then by seed."""

    def gain(self, reward: RewardName, examples: int) -> Interval:
        """Gain in success over before; interval over seeds and tasks."""
        return bootstrap_over_seeds(self._outcomes(reward, examples) - np.asarray(self.before.outcomes))

    def gain_over_random(self, examples: int) -> Interval:
        """Gain in success of the true reward over the random one."""
        return bootstrap_over_seeds(self._outcomes("true", examples) - self._outcomes("random", examples))

    def _outcomes(self, reward: RewardName, examples: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.array([run.outcomes for run in self.after[reward][examples]])

    def results(self) -> list[Result]:
        """Rows of the table."""
        sizes = list(self.after["true"])
        gains = {f"rft_gain_{reward}_{size}": self.gain(reward, size) for reward in self.after for size in sizes}
        gains |= {f"rft_over_random_{size}": self.gain_over_random(size) for size in sizes}
        seeds = len(self.after["true"][sizes[0]])
        return [
            Result("rft_success_before", float(np.mean(self.before.outcomes)), "share"),
            *(Result(name, gain.mean, "share", gain.low, gain.high, seeds) for name, gain in gains.items()),
        ]

    def details(self) -> dict[str, JsonValue]:
        """By reward and number of examples, success and sampled tokens of each seed."""
        return {
            reward: {
                str(size): {
                    "success": [round(fmean(run.outcomes), 4) for run in runs],
                    "sampled_tokens": [run.tokens for run in runs],
                }
                for size, runs in sizes.items()
            }
            for reward, sizes in self.after.items()
        }


def measure_rft(
    cache: ResultCache,
    folder: Path,
    seeds: Sequence[int],
    *,
    settings: FewExamplesSettings,
    on_done: Callable[[], None] = lambda: None,
) -> RftResults:
    """All runs; calls ``on_done`` after each of seeds · examples · rewards.

    ``folder``: of the initial model, which is trained when first needed. Uses torch with the threads that the
    caller has set.
    """
    setup = ErrandsSetup(folder, settings.setup)
    before = cache.get(CacheKey("rft", "before", 0), RftRun, lambda: _evaluate(setup, setup.new_worker(), tokens=0))
    rate = float(np.mean(before.outcomes))
    after: dict[RewardName, dict[int, list[RftRun]]] = {reward: {} for reward in REWARDS}
    for size in settings.examples:
        for reward in REWARDS:
            runs = after[reward][size] = []
            for seed in seeds:
                measure = partial(train, setup, size, reward, seed=seed, rate=rate, settings=settings)
                runs.append(cache.get(CacheKey("rft", f"{reward}-{size}", seed), RftRun, measure))
                on_done()
    return RftResults(before, after)


def _evaluate(setup: ErrandsSetup, worker: PolicyWorker, *, tokens: int) -> RftRun:
    return RftRun(tuple(setup.evaluate_heldout(worker, seed=EVALUATION_SEED).outcomes()), tokens)


def train(
    setup: ErrandsSetup, size: int, reward: RewardName, *, seed: int, rate: float, settings: FewExamplesSettings
) -> RftRun:
    """Trains one model on ``size`` examples. ``rate``: how often the random reward pays."""
    stream = setup.kit.tasks(seed=_EXAMPLES_SEED, split="train", families=setup.settings.families)
    examples, worker = list(islice(stream, size)), setup.new_worker()
    spec = RolloutSpec(
        f"rft/{seed}", seed, settings.group_size, reward=_reward_function(reward, seed=seed, rate=rate)
    )
    tokens = 0

    def collect(iteration: int, /) -> list[ScoredGroup]:
        nonlocal tokens
        tasks = iteration_tasks(examples, settings.tasks, seed, iteration)
        groups = worker.sample_groups(tasks, iteration, spec, setup.sink)
        tokens += written_tokens(groups)
        return groups

    with TemporaryDirectory() as name:
        run_grpo(worker.model, collect, settings.training, RunOptions(seed, Path(name)))
    return _evaluate(setup, worker, tokens=tokens)


def _reward_function(
    reward: RewardName, *, seed: int, rate: float
) -> Callable[[Trajectory, Evaluation], float | None]:
    if reward == "true":
        return acceptance_with_format
    return lambda trajectory, _: random_acceptance(trajectory, rate=rate, seed=seed)
