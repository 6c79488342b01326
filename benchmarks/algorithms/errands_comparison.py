"""Algorithms in errands, level 3, with the same budget of sampled tokens, with and without a world model.

All runs start from the model of ``ErrandsSetup``. The rollouts that the world model is trained on and its
predictions are sampled from the same budget. Success is that of sampled rollouts on training templates in worlds
that training never uses, the same ones for all.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.algorithms.errands_algorithms import ALGORITHMS, ErrandsAlgorithm, RolloutSource
from benchmarks.algorithms.token_budget import BudgetedSampler, BudgetExceededError, TokenBudget
from benchmarks.credit import ErrandsSettings, ErrandsSetup
from benchmarks.result_cache import CacheKey, ResultCache, digest
from upturn.config import OptimiserSettings
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.trainers import bootstrap_over_seeds, rehearsal_rows, split_transitions
from upturn.models import RenderedObservations
from upturn.records import JsonValue, Result, record
from upturn.training.algorithms.sft import SftSettings
from upturn.training.algorithms.world_model import Predictor, WorldModelSettings, run_world_model
from upturn.training.runs import RunOptions

EVALUATION_SEED = 0
"""The same evaluation for all seeds, so that only training differs between them."""


def _world_model() -> WorldModelSettings:
    """Training continues until its share of the budget is spent; the last weights are kept."""
    return WorldModelSettings(
        iterations=1_000,
        evaluate_every=None,
        keep="final",
        warm_up=SftSettings(epochs=1, optimiser=OptimiserSettings(learning_rate=1e-3)),
    )


@dataclass(frozen=True, slots=True)
class ErrandsTrainingSettings:
    """Everything that determines a result, except algorithm and seed."""

    setup: ErrandsSettings = field(default_factory=ErrandsSettings)
    observation_rounds: int = 2
    """Rounds of rollouts whose observations the world model is trained on."""
    world_model_share: float = 1 / 3
    """Share of the budget for the world model and these rollouts."""
    world_model: WorldModelSettings = field(default_factory=_world_model)


@record
class ErrandsRun:
    """One training run."""

    curve: tuple[tuple[int, float], ...]
    """Sampled tokens and success, from the start."""
    outcomes: tuple[float, ...]
    """1 or 0 of each held-out task, at the end."""
    world_model_tokens: int
    """Tokens of ``curve`` that were sampled for the world model; 0 = there was none."""

    def mean_success(self) -> float:
        """Mean of the curve over all tokens, linear between evaluations."""
        tokens, success = np.transpose(self.curve)
        return float(np.trapezoid(success, tokens) / (tokens[-1] - tokens[0]))


ErrandsRuns = Mapping[str, Sequence[ErrandsRun]]
"""By algorithm, with the suffix ``_after_world_model`` where there was one; then by seed."""
AFTER = "_after_world_model"


def run_names() -> list[str]:
    """Names of all runs of one seed."""
    return [f"{algorithm}{suffix}" for algorithm in ALGORITHMS for suffix in ("", AFTER)]


def measure_errands(
    cache: ResultCache,
    folder: Path,
    seeds: Sequence[int],
    *,
    settings: ErrandsTrainingSettings,
    on_done: Callable[[], None] = lambda: None,
) -> ErrandsRuns:
    """All runs; calls ``on_done`` after each.

    ``folder``: of the initial model, which is trained when first needed. Uses torch with the threads that the
    caller has set.
    """
    setup = ErrandsSetup(folder, settings.setup)
    runs: dict[str, list[ErrandsRun]] = {name: [] for name in run_names()}
    for seed in seeds:
        for name, seed_runs in runs.items():
            algorithm = ALGORITHMS[name.removesuffix(AFTER)]
            has_world_model = name.endswith(AFTER)
            suffix = "/rehearsed" if has_world_model else ""
            options = f"{digest(algorithm.settings)}/{algorithm.round_share:g}{suffix}"
            measure = partial(train, setup, algorithm, seed, settings=settings, has_world_model=has_world_model)
            seed_runs.append(cache.get(CacheKey("errands", name, seed, options), ErrandsRun, measure))
            on_done()
    return runs


def train(
    setup: ErrandsSetup,
    algorithm: ErrandsAlgorithm,
    seed: int,
    *,
    settings: ErrandsTrainingSettings,
    has_world_model: bool,
) -> ErrandsRun:
    """Trains one model to the end of the budget."""
    worker = setup.new_worker()
    budget = TokenBudget(setup.settings.budget)
    curve = [(0, setup.evaluate_heldout(worker, seed=EVALUATION_SEED).rate())]
    with TemporaryDirectory() as name:
        if has_world_model:
            train_world_model(setup, worker, budget, seed=seed, settings=settings, folder=Path(name) / "world")
        world_model_tokens = budget.tokens
        source = RolloutSource(setup, worker, budget, round_share=algorithm.round_share, seed=seed)

        def evaluate(_: int) -> float:
            if budget.tokens != curve[-1][0]:
                curve.append((budget.tokens, setup.evaluate_heldout(worker, seed=EVALUATION_SEED).rate()))
            return curve[-1][1]

        options = RunOptions(seed, Path(name) / "run", evaluate=evaluate)
        with suppress(BudgetExceededError):
            algorithm.train(worker.model, source, algorithm.settings, options)
    last = setup.evaluate_heldout(worker, seed=EVALUATION_SEED)
    if curve[-1][0] == budget.tokens:
        curve.pop()
    return ErrandsRun((*curve, (budget.tokens, last.rate())), tuple(last.outcomes()), world_model_tokens)


def train_world_model(
    setup: ErrandsSetup,
    worker: PolicyWorker,
    budget: TokenBudget,
    *,
    seed: int,
    settings: ErrandsTrainingSettings,
    folder: Path,
) -> None:
    """Trains the model to predict the observations of its rollouts, without rewards.

    The warm-up also trains on the model's own actions in these rollouts, so that it does not forget how to act.
    """
    share = TokenBudget(int(setup.settings.budget * settings.world_model_share))
    sampler, spec = setup.new_task_sampler(seed), setup.rollout_spec(f"world/{seed}", seed)
    trajectories = []
    for iteration in range(settings.observation_rounds):
        groups = worker.sample_groups(sampler.tasks(iteration), iteration, spec, setup.sink)
        share.add(groups)
        trajectories += [member.trajectory for group in groups for member in group.members]
    transitions = split_transitions(trajectories, worker)
    predictor = Predictor(BudgetedSampler(worker.engine, share), RenderedObservations(worker.renderer))
    has_warm_up = settings.world_model.warm_up is not None
    with suppress(BudgetExceededError):
        run_world_model(
            worker.model,
            predictor,
            (*transitions.trained, *transitions.held_out),
            settings.world_model,
            RunOptions(seed, folder),
            rehearsal=rehearsal_rows(trajectories, worker.version) if has_warm_up else (),
        )
    budget.tokens += share.tokens


def errands_results(runs: ErrandsRuns) -> list[Result]:
    """Success of each algorithm at the end and averaged over all tokens, then the gain of the world model.

    Intervals are over seeds and tasks; low and high of averaged success are the lowest and highest seed.
    """
    start = fmean(run.curve[0][1] for seeds in runs.values() for run in seeds)
    results = [Result("errands_success_start", start, "share")]
    for name, seeds in runs.items():
        final = bootstrap_over_seeds(_outcomes(seeds))
        results.append(Result(f"errands_success_{name}", final.mean, "share", final.low, final.high, len(seeds)))
    for name, seeds in runs.items():
        means = [run.mean_success() for run in seeds]
        results.append(Result(f"errands_mean_{name}", fmean(means), "share", min(means), max(means), len(seeds)))
    for name, seeds in runs.items():
        if not name.endswith(AFTER):
            gain = bootstrap_over_seeds(_outcomes(runs[f"{name}{AFTER}"]) - _outcomes(seeds))
            results.append(
                Result(f"errands_world_model_gain_{name}", gain.mean, "share", gain.low, gain.high, len(seeds))
            )
    return results


def errands_details(runs: ErrandsRuns) -> dict[str, JsonValue]:
    """By algorithm and seed, the curve as pairs of tokens and success, and the tokens of the world model."""
    return {
        name: {
            "curves": [[[tokens, round(success, 4)] for tokens, success in run.curve] for run in seeds],
            "world_tokens": [run.world_model_tokens for run in seeds],
        }
        for name, seeds in runs.items()
    }


def _outcomes(seeds: Sequence[ErrandsRun]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """``(S, T)``"""
    return np.array([run.outcomes for run in seeds])
