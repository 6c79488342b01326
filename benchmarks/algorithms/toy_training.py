"""One way of learning on one toy with one seed: what it is given, and what the policy is worth afterwards.

What a way is given depends on what it is for: demonstrations, fresh attempts, pairs, thumbs, or stored attempts.
All begin with random weights, but for those that by their nature build on an ability: second attempts with a hint
need a model that can follow hints at all, so it is taught to copy hints first, random ones, which say nothing of
any task; without a hint it goes on guessing. The world model, likewise, can write observations. In self-repair a
second attempt is told what was written before; on a toy that says no more than that it was wrong.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.algorithms.toy import ACTED, FIRST, HINT, Toy
from benchmarks.algorithms.toy_policy import Player, toy_model
from benchmarks.result_cache import digest
from upturn.agents import Hint
from upturn.config import OptimiserSettings
from upturn.records import Observation, PreferencePair, RatedTrajectory, Trajectory, record
from upturn.training import ScoredGroup, supervised_rows
from upturn.training.algorithms.dpo import DpoSettings, run_dpo
from upturn.training.algorithms.expert_iteration import ImitationSettings, run_imitation
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.algorithms.kto import KtoSettings, run_kto
from upturn.training.algorithms.mixture import MixtureSettings, policy_part, run_mixture, supervised_part
from upturn.training.algorithms.offline import OfflineSettings, run_offline
from upturn.training.algorithms.online_dpo import OnlineDpoSettings, run_online_dpo
from upturn.training.algorithms.ppo import PpoSettings, run_ppo
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.data import HintedGroup
from upturn.training.policy_settings import KlSettings, ObjectiveSettings
from upturn.training.runs import RunOptions

HELD = ObjectiveSettings(kl=KlSettings(0.04, unbiased=True))
"""Of policy gradients on fresh attempts. Without a hold on the weights before training, a task whose answer was not
found early may settle on a wrong one, which then is all that is ever tried: GRPO missed a door, PPO a word."""
_STORED = 4
"""Rounds of attempts by another model before its lessons, and as many after, for those who learn from the past."""
_SOME_WAY = 0.35
_OTHER = 1_000
"""Added to the seed for that model's weights."""
_LESSON = SftSettings(epochs=4, batch_rows=16, optimiser=OptimiserSettings(learning_rate=1e-3))
_COPIED = 1_536
"""Rows of random hints, and as many without one, that copying is learned from."""
_FEW = 16


@record
class Reached:
    """What a policy was worth in the end."""

    worth: float
    """Expected reward; the optimum is 1."""
    start: float
    """Before."""
    tokens: int
    """Sampled for it; 0 = it learned from what was there."""
    seconds: float
    """Processor time of learning."""


class Contest(NamedTuple):
    """One seed of one toy."""

    toy: Toy
    seed: int
    folder: Path
    """For the run's files; empty."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """Supervised training before a contest."""

    settings: SftSettings
    teach: Callable[[Contest, Player, SftSettings], None]

    def shortened(self, count: int) -> "Lesson":
        """The same with so few epochs."""
        return replace(self, settings=replace(self.settings, epochs=count))


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way of learning as it is set on toys."""

    settings: Any
    """Of its algorithm: a dataclass."""
    learn: Callable[[Contest, Player, Any], None]
    """``(contest, player, settings)``: trains the player's model."""
    counts: tuple[str, ...]
    """The settings that bound how long it learns: rounds, epochs, …; with a dot where one is a setting's own."""
    attempts: int = 32
    """At each task, at once."""
    lesson: Lesson | None = None
    """What the way builds on; None = it begins with random weights."""
    toys: tuple[str, ...] = ACTED

    @property
    def options(self) -> str:
        """Another one when anything about it changes."""
        lesson = "" if self.lesson is None else digest(self.lesson.settings)
        return f"{digest(self.settings)}/{self.attempts}/{lesson}"

    def shortened(self, count: int) -> "Contestant":
        """The same with so few rounds and epochs, and few attempts."""
        settings = self.settings
        for name in self.counts:
            outer, _, inner = name.partition(".")
            changed = replace(getattr(settings, outer), **{inner: count}) if inner else count
            settings = replace(settings, **{outer: changed})
        lesson = None if self.lesson is None else self.lesson.shortened(count)
        return replace(self, settings=settings, attempts=min(self.attempts, _FEW), lesson=lesson)

    def reached(self, contest: Contest) -> Reached:
        """What it comes to."""
        model = toy_model(contest.toy, contest.seed)
        player = Player(contest.toy, model, attempts=self.attempts, seed=contest.seed)
        contest.folder.mkdir(parents=True, exist_ok=True)
        if self.lesson is not None:
            self.lesson.teach(contest, player, self.lesson.settings)
        start, began = player.worth(), time.process_time()
        self.learn(contest, player, self.settings)
        return Reached(player.worth(), start, player.tokens, time.process_time() - began)


def _run(contest: Contest, player: Player) -> RunOptions:
    """Seed, folder and the exact worth as evaluation."""
    return RunOptions(contest.seed, contest.folder / "run", evaluate=lambda _: player.worth())


def learn_sft(contest: Contest, player: Player, settings: SftSettings) -> None:
    """From a demonstration of each task."""
    rows = supervised_rows(player.demonstrations())
    run_sft(player.model, rows, settings, RunOptions(contest.seed, contest.folder / "run"))


def learn_grpo(contest: Contest, player: Player, settings: GrpoSettings) -> None:
    """From fresh attempts."""
    run_grpo(player.model, player.collect, settings, _run(contest, player))


def learn_ppo(contest: Contest, player: Player, settings: PpoSettings) -> None:
    """From fresh attempts."""
    run_ppo(player.model, player.collect, settings, _run(contest, player))


def learn_dpo(contest: Contest, player: Player, settings: DpoSettings) -> None:
    """From pairs of a demonstration and a beginner's attempt that earned less."""
    best = {each.task_id: each for each in player.demonstrations()}
    pairs = [
        PreferencePair(f"{group.task.id}/{place}", best[group.task.id], member.trajectory, "correction")
        for group in player.collect(0)
        for place, member in enumerate(group.members)
        if sum(member.turn_rewards or ()) < 1
    ]
    run_dpo(player.model, pairs, settings, RunOptions(contest.seed, contest.folder / "run"))


def learn_dpo_rounds(contest: Contest, player: Player, settings: OnlineDpoSettings) -> None:
    """From pairs of fresh attempts."""
    run_online_dpo(player.model, player.collect, settings, _run(contest, player))


def learn_kto(contest: Contest, player: Player, settings: KtoSettings) -> None:
    """From demonstrations with thumbs up and a beginner's attempts with thumbs up or down, by what they earned.

    The good ones weigh as much together as the bad ones: the paper's advice, which depends on how many there are.
    """
    rated = [RatedTrajectory(each, is_desirable=True) for each in player.demonstrations()]
    rated += [
        RatedTrajectory(member.trajectory, is_desirable=sum(member.turn_rewards or ()) >= 1)
        for group in player.collect(0)
        for member in group.members
    ]
    bad = sum(not each.is_desirable for each in rated)
    weighed = replace(settings, desirable_weight=bad / (len(rated) - bad))
    run_kto(player.model, rated, weighed, RunOptions(contest.seed, contest.folder / "run"))


def learn_imitation(contest: Contest, player: Player, settings: ImitationSettings) -> None:
    """From its own successes; second attempts are told the answer, or what was written the first time."""
    second = None
    if settings.second is not None:
        kind = settings.second.kind

        def second(iteration: int, failed: Sequence[ScoredGroup], /) -> list[HintedGroup]:
            return _second(player, iteration, failed, is_told=kind == "rationalisation")

    run_imitation(player.model, player.collect, settings, _run(contest, player), second=second)


def _second(player: Player, iteration: int, failed: Sequence[ScoredGroup], *, is_told: bool) -> list[HintedGroup]:
    """Attempts with the best tokens, or those of the first attempt that failed, standing before the task."""
    toy = player.toy
    tasks = [group.task for group in failed]
    hints = [
        _flat(toy.best(group.task.id).written)
        if is_told
        else tuple(int(token) for turn in group.members[0].trajectory.turns for token in turn.text.split())
        for group in failed
    ]
    groups = player.play(tasks, iteration, 1, hints=[(HINT, *hint) for hint in hints]) if tasks else []
    return [
        HintedGroup(group, (_hint(hint, toy.openings[group.task.id]),) * len(group.members))
        for group, hint in zip(groups, hints, strict=True)
    ]


def _hint(told: tuple[int, ...], opening: tuple[int, ...]) -> Hint:
    return Hint("", Observation(""), (HINT, *told, *opening), opening)


def _flat(written: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(token for turn in written for token in turn)


def teach_copying(contest: Contest, player: Player, settings: SftSettings) -> None:
    """Teaches to write what a hint says, and without one anything.

    Hints are drawn without regard to the task that follows, so nothing is learned of how any is solved.
    """
    toy, rng = player.toy, np.random.default_rng([contest.seed, 1])
    names = list(toy.openings)
    shown: list[Trajectory] = []
    for _ in range(_COPIED):
        name = names[int(rng.integers(len(names)))]
        for is_hinted in (True, False):
            written = rng.integers(FIRST, toy.vocabulary, (toy.turns, toy.written)).tolist()
            shown.append(
                player.shown(name, written, hint=(HINT, *_flat(written)) if is_hinted else (), place=len(shown))
            )
    run_sft(player.model, supervised_rows(shown), settings, RunOptions(contest.seed, contest.folder / "copying"))


def learn_offline(contest: Contest, player: Player, settings: OfflineSettings) -> None:
    """From attempts of another model, before it knew anything and after demonstrations had brought it some way."""
    other = Player(player.toy, toy_model(player.toy, contest.seed + _OTHER), attempts=32, seed=contest.seed)
    groups = [group for iteration in range(_STORED) for group in other.collect(iteration)]
    rows, lessons = supervised_rows(other.demonstrations()), 0
    while other.worth() < _SOME_WAY:
        run_sft(other.model, rows, _LESSON, RunOptions(contest.seed, contest.folder / f"before-{lessons}"))
        lessons += 1
    groups += [group for iteration in range(_STORED, 2 * _STORED) for group in other.collect(iteration)]
    attempts = [(group.task, member) for group in groups for member in group.members]
    run_offline(player.model, attempts, settings, _run(contest, player))


def learn_mixture(contest: Contest, player: Player, settings: MixtureSettings) -> None:
    """From demonstrations of every other task and fresh attempts at all."""
    shown = supervised_part(supervised_rows(player.demonstrations(player.toy.tasks[::2])), 16)
    parts = [
        # Any louder, and it teaches to answer the other tasks, wrongly, before practice has tried them.
        replace(shown, weight=0.1),
        policy_part(player.collect, GrpoSettings(objective=HELD)),
    ]
    run_mixture(player.model, parts, settings, _run(contest, player))
