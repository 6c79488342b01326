"""Training of one algorithm on one toy with one seed, and the policy's expected reward afterwards.

Algorithms get the data that they are made for: demonstrations, new rollouts, pairs, ratings, or stored
trajectories. Weights are random at the start, except for algorithms that build on an ability. Hinted rollouts need
a model that can follow hints, so it is first trained to copy random hints, which are independent of the tasks;
without a hint it still guesses. The world model is first trained on the form of observations. In self-repair the
hint is the failed rollout; on a toy it only shows that this rollout was wrong.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.algorithms.toy import ACTION_TOYS, FIRST, HINT, Toy
from benchmarks.algorithms.toy_policy import ToyPolicy, toy_model
from benchmarks.result_cache import digest
from upturn.agents import Hint
from upturn.config import OptimiserSettings
from upturn.records import Observation, PreferencePair, RatedTrajectory, Trajectory, record
from upturn.training import ScoredGroup, supervised_rows
from upturn.training.algorithms.dpo import DpoSettings, run_dpo
from upturn.training.algorithms.expert_iteration import ImitationSettings, run_imitation
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.kto import KtoSettings, run_kto
from upturn.training.algorithms.mixture import MixtureSettings, policy_part, run_mixture, supervised_part
from upturn.training.algorithms.offline import OfflineSettings, run_offline
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.data import HintedGroup
from upturn.training.policy_settings import KlSettings, ObjectiveSettings
from upturn.training.runs import RunOptions

KL_OBJECTIVE = ObjectiveSettings(kl=KlSettings(0.04, unbiased=True))
"""The objective of policy gradients on new rollouts. Without a KL term to the initial weights, a task whose answer
was not found early may converge to a wrong one, which is then sampled forever: GRPO missed a door, PPO a word."""
_STORED_ITERATIONS = 4
"""Of another model before its supervised training, and as many after, as data of offline training."""
_PARTIAL_REWARD = 0.35
"""Expected reward that ends the other model's supervised training."""
_OTHER_SEED = 1_000
"""Added to the seed for the other model's weights."""
_OTHER_SFT = SftSettings(epochs=4, batch_rows=16, optimiser=OptimiserSettings(learning_rate=1e-3))
_COPIED_HINTS = 1_536
"""Rows with a random hint, and as many without one, to train copying on."""
_SHORT_GROUP_SIZE = 16


@record
class ToyResult:
    """Result of training on a toy."""

    reward: float
    """Expected reward after training; the optimum is 1."""
    start: float
    """Expected reward before training."""
    tokens: int
    """Sampled tokens; 0 = trained on demonstrations only."""
    seconds: float
    """Processor time of training."""


class ToyRun(NamedTuple):
    """A toy, a seed and a folder."""

    toy: Toy
    seed: int
    folder: Path
    """Empty, for the run's files."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """Supervised training before a run."""

    settings: SftSettings
    train: Callable[[ToyRun, ToyPolicy, SftSettings], None]


@dataclass(frozen=True, slots=True)
class ToyAlgorithm:
    """An algorithm as configured for toys."""

    settings: Any
    """The algorithm's settings: a dataclass."""
    train: Callable[[ToyRun, ToyPolicy, Any], None]
    """``(run, policy, settings)``: trains the policy's model."""
    length_settings: tuple[str, ...] = ("iterations",)
    """Names of the settings that limit the length of training: iterations, epochs."""
    group_size: int = 32
    preparation: Preparation | None = None
    """None = training starts with random weights."""
    toys: tuple[str, ...] = ACTION_TOYS

    @property
    def options(self) -> str:
        """Digest of everything about the algorithm."""
        preparation = "" if self.preparation is None else digest(self.preparation.settings)
        return f"{digest(self.settings)}/{self.group_size}/{preparation}"

    def shortened(self, length: int) -> "ToyAlgorithm":
        """A copy with so many iterations and epochs, and small groups."""
        preparation = self.preparation
        if preparation is not None:
            preparation = replace(preparation, settings=replace(preparation.settings, epochs=length))
        return replace(
            self,
            settings=replace(self.settings, **dict.fromkeys(self.length_settings, length)),
            group_size=min(self.group_size, _SHORT_GROUP_SIZE),
            preparation=preparation,
        )

    def measure(self, run: ToyRun) -> ToyResult:
        """Trains a new model."""
        policy = ToyPolicy(run.toy, toy_model(run.toy, run.seed), group_size=self.group_size, seed=run.seed)
        run.folder.mkdir(parents=True, exist_ok=True)
        if self.preparation is not None:
            self.preparation.train(run, policy, self.preparation.settings)
        start, started = policy.expected_reward(), time.process_time()
        self.train(run, policy, self.settings)
        return ToyResult(policy.expected_reward(), start, policy.tokens, time.process_time() - started)


def run_options(run: ToyRun, policy: ToyPolicy) -> RunOptions:
    """Seed, folder and the exact expected reward as evaluation."""
    return RunOptions(run.seed, run.folder / "run", evaluate=lambda _: policy.expected_reward())


def train_online(algorithm: Callable[..., object]) -> Callable[[ToyRun, ToyPolicy, Any], None]:
    """Trains on new rollouts with a ``run_…`` function."""

    def train(run: ToyRun, policy: ToyPolicy, settings: Any) -> None:
        algorithm(policy.model, policy.collect, settings, run_options(run, policy))

    return train


def train_sft(run: ToyRun, policy: ToyPolicy, settings: SftSettings) -> None:
    """Trains on a demonstration of each task."""
    rows = supervised_rows(policy.demonstrations())
    run_sft(policy.model, rows, settings, RunOptions(run.seed, run.folder / "run"))


def train_dpo(run: ToyRun, policy: ToyPolicy, settings: DpoSettings) -> None:
    """Trains on pairs of a demonstration and a rollout of the initial model with a smaller reward."""
    best = {trajectory.task_id: trajectory for trajectory in policy.demonstrations()}
    pairs = [
        PreferencePair(f"{group.task.id}/{index}", best[group.task.id], member.trajectory, "correction")
        for group in policy.collect(0)
        for index, member in enumerate(group.members)
        if sum(member.turn_rewards or ()) < 1
    ]
    run_dpo(policy.model, pairs, settings, RunOptions(run.seed, run.folder / "run"))


def train_kto(run: ToyRun, policy: ToyPolicy, settings: KtoSettings) -> None:
    """Trains on positively rated demonstrations and rollouts of the initial model, rated by their reward.

    All desirable trajectories together have the weight of all undesirable ones, as the paper recommends.
    """
    rated = [RatedTrajectory(trajectory, is_desirable=True) for trajectory in policy.demonstrations()]
    rated += [
        RatedTrajectory(member.trajectory, is_desirable=sum(member.turn_rewards or ()) >= 1)
        for group in policy.collect(0)
        for member in group.members
    ]
    undesirable = sum(not trajectory.is_desirable for trajectory in rated)
    weighted = replace(settings, desirable_weight=undesirable / (len(rated) - undesirable))
    run_kto(policy.model, rated, weighted, RunOptions(run.seed, run.folder / "run"))


def train_imitation(run: ToyRun, policy: ToyPolicy, settings: ImitationSettings) -> None:
    """Trains on the policy's successes, with hinted rollouts where the settings have them."""
    collect_hinted = None
    if settings.hint is not None:
        is_answer = settings.hint.kind == "rationalisation"

        def collect_hinted(iteration: int, failed: Sequence[ScoredGroup], /) -> list[HintedGroup]:
            return _hinted_groups(policy, iteration, failed, is_answer=is_answer)

    run_imitation(policy.model, policy.collect, settings, run_options(run, policy), collect_hinted=collect_hinted)


def _hinted_groups(
    policy: ToyPolicy, iteration: int, failed: Sequence[ScoredGroup], *, is_answer: bool
) -> list[HintedGroup]:
    """Rollouts with a hint before the task: the best tokens, or those of the first failed rollout."""
    toy = policy.toy
    tasks = [group.task for group in failed]
    hints = [
        (HINT, *_flatten(toy.best(group.task.id).written))
        if is_answer
        else (HINT, *(int(token) for turn in group.members[0].trajectory.turns for token in turn.text.split()))
        for group in failed
    ]
    groups = policy.sample_groups(tasks, iteration, 1, hints=hints) if tasks else []
    openings = [toy.openings[task.id] for task in tasks]
    return [
        HintedGroup(group, (Hint("", Observation(""), (*hint, *opening), opening),) * len(group.members))
        for group, hint, opening in zip(groups, hints, openings, strict=True)
    ]


def _flatten(written: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(token for turn in written for token in turn)


def train_copying(run: ToyRun, policy: ToyPolicy, settings: SftSettings) -> None:
    """Trains the model to copy a hint, and to write random tokens without one.

    Hints are independent of the task that follows, so the model does not learn to solve any task.
    """
    toy, rng = policy.toy, np.random.default_rng([run.seed, 1])
    names = list(toy.openings)
    demonstrations: list[Trajectory] = []
    for _ in range(_COPIED_HINTS):
        name = names[int(rng.integers(len(names)))]
        for is_hinted in (True, False):
            written = rng.integers(FIRST, toy.vocabulary, (toy.turns, toy.written)).tolist()
            hint = (HINT, *_flatten(written)) if is_hinted else ()
            demonstrations.append(policy.demonstration(name, written, hint=hint, index=len(demonstrations)))
    run_sft(policy.model, supervised_rows(demonstrations), settings, RunOptions(run.seed, run.folder / "copying"))


def train_offline(run: ToyRun, policy: ToyPolicy, settings: OfflineSettings) -> None:
    """Trains on rollouts of another model, from before and after some supervised training."""
    other = ToyPolicy(policy.toy, toy_model(policy.toy, run.seed + _OTHER_SEED), group_size=32, seed=run.seed)
    groups = [group for iteration in range(_STORED_ITERATIONS) for group in other.collect(iteration)]
    rows, rounds = supervised_rows(other.demonstrations()), 0
    while other.expected_reward() < _PARTIAL_REWARD:
        run_sft(other.model, rows, _OTHER_SFT, RunOptions(run.seed, run.folder / f"before-{rounds}"))
        rounds += 1
    later = range(_STORED_ITERATIONS, 2 * _STORED_ITERATIONS)
    groups += [group for iteration in later for group in other.collect(iteration)]
    stored = [(group.task, member) for group in groups for member in group.members]
    run_offline(policy.model, stored, settings, run_options(run, policy))


def train_mixture(run: ToyRun, policy: ToyPolicy, settings: MixtureSettings) -> None:
    """Trains on demonstrations of every other task and on new rollouts of all tasks."""
    supervised = supervised_part(supervised_rows(policy.demonstrations(policy.toy.tasks[::2])), 16)
    parts = [
        # A larger weight would train wrong answers of the other tasks before they are found by sampling.
        replace(supervised, weight=0.1),
        policy_part(policy.collect, GrpoSettings(objective=KL_OBJECTIVE)),
    ]
    run_mixture(policy.model, parts, settings, run_options(run, policy))
