"""Proximal policy optimisation with a critic, by turn or by token, as a run: resumable, evaluated, stopped in time.

Order of an iteration: groups are collected; the critic says once what each step of each attempt was worth; rewards
and values become advantages (``credit``); the critic takes its optimiser steps towards the returns; the rows, each
written token with the advantage of its step, become the policy's optimiser steps (``policy_update``). Attempts that
could not be scored teach neither network anything; they are counted, also in what the policy's loss is a mean over.
"""

from collections.abc import Sequence
from itertools import islice

from transformers import PreTrainedModel

from upturn.models.engine import weights_hash
from upturn.records import Trajectory
from upturn.training.advantage import ScoredGroup
from upturn.training.advantages import GroupRelative
from upturn.training.algorithms.policy_gradient import sampled_metrics
from upturn.training.algorithms.policy_update import PolicyUpdate, rollout_rows
from upturn.training.algorithms.ppo.credit import Credited, weighted_rows
from upturn.training.algorithms.ppo.credit_units import group_steps
from upturn.training.algorithms.ppo.critic_update import Appraiser
from upturn.training.algorithms.ppo.settings import PpoSettings
from upturn.training.data import Collect, Collecting, Collector, StatefulCollect
from upturn.training.optimisation import (
    Critic,
    IterationSchedule,
    Trainer,
    count_sampled,
    frozen_scorer,
    value_model,
)
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import TrainingRow, policy_rows
from upturn.training.runs import (
    Run,
    RunOptions,
    RunPlace,
    check_evaluation,
    identity_of,
    plan_of,
)
from upturn.training.scorer import Scorer
from upturn.training.stream import NO_STATE, Algorithm, State, Unit, joined, parted


def run_ppo(
    model: PreTrainedModel,
    collect: Collect,
    settings: PpoSettings,
    options: RunOptions,
    *,
    critic: PreTrainedModel | None = None,
) -> TrainingOutcome:
    """Trains the model in place; resumes from the options' folder. Arguments and promises are those of
    ``run_grpo``.

    ``critic``: a ``value_model`` that an earlier run has trained, or that is sharded as the model is; it is trained
    in place, and resuming needs it as it was before. None = a new one, from the model, which lives as long as the
    run. Checkpoints hold it. Groups may be of any size: nothing is compared within them.
    """
    check_evaluation(options.evaluation, settings.evaluate_every)
    own = settings.critic.optimiser(settings.optimiser)
    rate = IterationSchedule(settings.decay, settings.iterations, settings.optimiser.warmup_steps)
    critic_rate = IterationSchedule(settings.decay, settings.iterations, own.warmup_steps)
    trainer = Trainer(model, settings.optimiser, rate)
    algorithm: Algorithm = ProximalPolicy(
        critic_rate.follow(rate.follow(collect)),
        settings,
        options.seed,
        critic=Critic(value_model(model) if critic is None else critic, own, critic_rate),
        scorer=None if settings.mismatch is None else trainer.score,
        reference=None if settings.objective.kl is None else frozen_scorer(trainer),
    )
    further: dict[str, object] = {"seed": options.seed}
    if critic is not None:
        further["critic"] = weights_hash(critic)
    if isinstance(collect, StatefulCollect):
        algorithm, further = Collecting(algorithm, collect), {**further, **collect.identity()}
    place = RunPlace(options.folder, identity_of(trainer, "ppo", settings, **further))
    return Run(
        trainer, algorithm, plan_of(settings, settings.iterations), place, options.evaluation, options.progress
    ).finish()


class ProximalPolicy:
    """Iterations as weight streams of the policy; the critic learns on the way. Single use: one run."""

    def __init__(
        self,
        collect: Collect,
        settings: PpoSettings,
        seed: int,
        *,
        critic: Critic,
        scorer: Scorer | None = None,
        reference: Scorer | None = None,
    ) -> None:
        """``scorer`` and ``reference`` as for ``PolicyUpdate``."""
        self.settings = settings
        self.seed = seed
        self._appraiser = Appraiser(critic, settings.critic, settings.credit, seed)
        # checks and returns are what is wanted of it: nothing is compared within a group
        self._collector = Collector(collect, GroupRelative(), "none")
        self._update = PolicyUpdate(settings.policy, seed, scorer=scorer, reference=reference)

    def unit(self, index: int) -> Unit:
        """Iteration ``index``; the critic has learned from it when this returns.

        Raises TrainingError when there is nothing, or something unusable, to train on.
        """
        found = self._collector.collection(index)
        groups = [each.group for each in found.sampled]
        steps = [group_steps(group, self.settings.credit.step, _plain_rows) for group in groups]
        appraised = self._appraiser.appraise(index, steps)
        alone = index < self.settings.critic.alone_iterations
        rows = [] if alone else self._rows(groups, appraised.groups)
        update = self._update.unit(index, rows, count_sampled(groups))
        return Unit(update.minibatches, {**sampled_metrics(found), **appraised.metrics, **update.metrics})

    def state(self) -> State:
        """The critic, and what an adaptive KL coefficient remembers."""
        return joined({"critic": self._appraiser.state(), "update": self._update.state()})

    def load_state(self, state: State) -> None:
        """Gives each its part."""
        parts = parted(state)
        self._appraiser.load_state(parts.get("critic", NO_STATE))
        self._update.load_state(parts.get("update", NO_STATE))

    def _rows(
        self, groups: Sequence[ScoredGroup], attempts: Sequence[Sequence[Credited]]
    ) -> list[list[TrainingRow]]:
        """The policy's rows by group, on one scale; of attempts that could not be scored with weight 0."""
        weighted = iter(weighted_rows([each for own in attempts for each in own], self.settings.credit))
        return [
            [
                row
                for rows in (*islice(weighted, len(own)), *_unscored_rows(group))
                for row in rollout_rows(rows, self.settings.objective)
            ]
            for group, own in zip(groups, attempts, strict=True)
        ]


def _plain_rows(trajectory: Trajectory) -> tuple[TrainingRow, ...]:
    """Each token with weight 0."""
    return policy_rows(trajectory, (0.0,) * len(trajectory.turns))


def _unscored_rows(group: ScoredGroup) -> list[tuple[TrainingRow, ...]]:
    """Of each attempt that could not be scored."""
    return [_plain_rows(member.trajectory) for member in group.members if not member.is_scorable]
