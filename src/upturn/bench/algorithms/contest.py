"""Every way of learning on a toy: how it is set there, and what the policy is worth afterwards.

One learning rate and one size of rounds for all toys; every way may take as many rounds as it likes, up to a bound,
and stops when it has almost all there is. What it gets depends on what it is for: demonstrations, fresh attempts,
pairs, thumbs, or stored attempts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from upturn.agents.hint import Hint
from upturn.bench.algorithms.player import Player, toy_model
from upturn.bench.algorithms.toy import Toy
from upturn.records import Observation, PreferencePair, RatedTrajectory, record
from upturn.training.advantage import ScoredGroup
from upturn.training.imitation_settings import ImitationSettings, SecondSettings, SelectionSettings
from upturn.training.mixture_settings import MixtureSettings
from upturn.training.offline_settings import OfflineSettings
from upturn.training.ppo_settings import CriticSettings, PpoSettings
from upturn.training.preference_settings import DpoRoundsSettings, DpoSettings, KtoSettings, PairSettings
from upturn.training.row import supervised_rows
from upturn.training.second import HintedGroup
from upturn.training.settings import GrpoSettings, OptimiserSettings, SftSettings

ENOUGH = 0.98
"""Of the optimum; training stops there, so that easy toys do not take long."""
RATE = OptimiserSettings(learning_rate=3e-3)
ROUNDS = 150
"""At most."""
_STORED_ROUNDS = 12
"""Of attempts by beginners that those who learn from the past are given."""


@record
class Reached:
    """What a policy was worth in the end."""

    worth: float
    """Expected reward; the optimum is 1."""
    start: float
    """Before."""
    tokens: int
    """Sampled for it; 0 = it learned from what was there."""


@dataclass(frozen=True, slots=True)
class Contest:
    """One seed of one toy."""

    toy: Toy
    seed: int
    folder: Path
    """For the run's files; empty."""

    def player(self) -> Player:
        """With weights of the seed's own."""
        return Player(self.toy, toy_model(self.toy, self.seed), attempts=32, seed=self.seed)


def reached(name: str, contest: Contest) -> Reached:
    """What the way of that name comes to."""
    player = contest.player()
    start = player.worth()
    CONTESTANTS[name](contest, player)
    return Reached(player.worth(), start, player.tokens)


def _sft(contest: Contest, player: Player) -> None:
    from upturn.training.sft import run_sft

    rows = supervised_rows(player.demonstrations())
    settings = SftSettings(epochs=ROUNDS, batch_rows=16, optimiser=RATE, decay="linear")
    run_sft(player.model, rows, settings, seed=contest.seed, run_dir=contest.folder)


def _grpo(contest: Contest, player: Player) -> None:
    from upturn.training.grpo import run_grpo

    settings = GrpoSettings(iterations=ROUNDS, optimiser=RATE, target_score=ENOUGH)
    run_grpo(
        player.model,
        player.collect,
        settings,
        seed=contest.seed,
        run_dir=contest.folder,
        evaluate=lambda _: player.worth(),
    )


def _ppo(contest: Contest, player: Player) -> None:
    from upturn.training.ppo import run_ppo

    critic = CriticSettings(learning_rate=RATE.learning_rate)
    settings = PpoSettings(iterations=ROUNDS, optimiser=RATE, critic=critic, target_score=ENOUGH)
    run_ppo(
        player.model,
        player.collect,
        settings,
        seed=contest.seed,
        run_dir=contest.folder,
        evaluate=lambda _: player.worth(),
    )


def _dpo(contest: Contest, player: Player) -> None:
    """Pairs of a demonstration and an attempt that earned less."""
    from upturn.training.dpo import run_dpo

    best = {each.task_id: each for each in player.demonstrations()}
    pairs = [
        PreferencePair(f"{group.task.id}/{place}", best[group.task.id], member.trajectory, "correction")
        for group in player.collect(0)
        for place, member in enumerate(group.members)
        if sum(member.turn_rewards or ()) < 1
    ]
    settings = DpoSettings(epochs=60, batch_pairs=32, optimiser=RATE, decay="linear")
    run_dpo(player.model, pairs, settings, seed=contest.seed, run_dir=contest.folder)


def _dpo_rounds(contest: Contest, player: Player) -> None:
    from upturn.training.dpo_rounds import run_dpo_rounds

    settings = DpoRoundsSettings(
        rounds=ROUNDS, pairs=PairSettings(), batch_pairs=8, optimiser=RATE, evaluate_every=5, target_score=ENOUGH
    )
    run_dpo_rounds(
        player.model,
        player.collect,
        settings,
        seed=contest.seed,
        run_dir=contest.folder,
        evaluate=lambda _: player.worth(),
    )


def _kto(contest: Contest, player: Player) -> None:
    """Thumbs up for demonstrations, thumbs up and down for attempts by what they earned."""
    from upturn.training.kto import run_kto

    rated = [RatedTrajectory(each, is_desirable=True) for each in player.demonstrations()]
    rated += [
        RatedTrajectory(member.trajectory, is_desirable=sum(member.turn_rewards or ()) >= 1)
        for group in player.collect(0)
        for member in group.members
    ]
    bad = sum(not each.is_desirable for each in rated)
    weight = bad / (len(rated) - bad)
    settings = KtoSettings(epochs=60, desirable_weight=weight, optimiser=RATE, decay="linear")
    run_kto(player.model, rated, settings, seed=contest.seed, run_dir=contest.folder)


def _imitation(settings: ImitationSettings) -> Callable[[Contest, Player], None]:
    def learn(contest: Contest, player: Player) -> None:
        from upturn.training.imitation import run_imitation

        run_imitation(
            player.model,
            player.collect,
            settings,
            seed=contest.seed,
            run_dir=contest.folder,
            second=None if settings.second is None else _second(player),
            evaluate=lambda _: player.worth(),
        )

    return learn


def _second(player: Player) -> Callable[[int, Sequence[ScoredGroup]], list[HintedGroup]]:
    """Attempts with the best tokens standing before the task."""

    def attempt(iteration: int, failed: Sequence[ScoredGroup], /) -> list[HintedGroup]:
        toy = player.toy
        tasks = [group.task for group in failed]
        told = [tuple(token for turn in toy.best(task.id).written for token in turn) for task in tasks]
        groups = player.play(tasks, iteration, 1, hints=told) if tasks else []
        return [
            HintedGroup(group, (_hint(told[place], toy.openings[group.task.id]),) * len(group.members))
            for place, group in enumerate(groups)
        ]

    return attempt


def _hint(told: tuple[int, ...], opening: tuple[int, ...]) -> Hint:
    return Hint("", Observation(""), (*told, *opening), opening)


def _offline(contest: Contest, player: Player) -> None:
    """Attempts of three beginners, each better than the last, none of them the one that learns."""
    from upturn.training.offline import run_offline

    attempts = [
        (group.task, member)
        for iteration in range(_STORED_ROUNDS)
        for group in player.collect(iteration)
        for member in group.members
    ]
    player.tokens = 0
    settings = OfflineSettings(
        groups=len(player.toy.tasks),
        policy=GrpoSettings(
            iterations=ROUNDS, mismatch=OfflineSettings().policy.mismatch, optimiser=RATE, target_score=ENOUGH
        ),
    )
    run_offline(
        player.model,
        attempts,
        settings,
        seed=contest.seed,
        run_dir=contest.folder,
        evaluate=lambda _: player.worth(),
    )


def _mixture(contest: Contest, player: Player) -> None:
    """Demonstrations of every other task, practice of all."""
    from upturn.training.mixture import policy_part, run_mixture, supervised_part

    shown = [first for first, _ in list(pairwise([*player.toy.tasks, player.toy.tasks[0]]))[::2]]
    parts = [
        supervised_part(supervised_rows(player.demonstrations(shown)), 16),
        policy_part(player.collect, GrpoSettings()),
    ]
    settings = MixtureSettings(units=ROUNDS, optimiser=RATE, target_score=ENOUGH)
    run_mixture(
        player.model,
        parts,
        settings,
        seed=contest.seed,
        run_dir=contest.folder,
        evaluate=lambda _: player.worth(),
    )


_SELECTION = SelectionSettings(threshold=1.0, top=4)
_ROUND = 8
"""Epochs over what a round of imitation selected."""

CONTESTANTS: Mapping[str, Callable[[Contest, Player], None]] = {
    "sft": _sft,
    "grpo": _grpo,
    "ppo": _ppo,
    "dpo": _dpo,
    "dpo_rounds": _dpo_rounds,
    "kto": _kto,
    "iterated": _imitation(
        ImitationSettings(rounds=30, selection=_SELECTION, epochs=_ROUND, optimiser=RATE, target_score=ENOUGH)
    ),
    "star": _imitation(
        ImitationSettings(
            rounds=20,
            selection=_SELECTION,
            restart=True,
            second=SecondSettings("rationalisation"),
            epochs=16 * _ROUND,
            optimiser=RATE,
            target_score=ENOUGH,
        )
    ),
    "offline": _offline,
    "mixture": _mixture,
}
"""By name."""
