"""Proximal policy optimisation with a critic, by turn or by token, as a run: resumable, evaluated, stopped early.

Order of an iteration: groups are sampled; the critic values each step of each trajectory once; rewards and values
become advantages (``credit``); the critic takes its optimiser steps towards the returns; the rows, each written
token with the advantage of its step, become the policy's optimiser steps (``policy_update``). Unscorable
trajectories train neither network; they are counted, also in the denominator of the policy's loss."""

from collections.abc import Sequence
from itertools import islice

from transformers import PreTrainedModel

from upturn.models.engine import weights_hash
from upturn.records import Trajectory
from upturn.training.advantage import ScoredGroup
from upturn.training.advantages import GroupRelative
from upturn.training.algorithms.policy_gradient import sampled_metrics
from upturn.training.algorithms.policy_update import PolicyUpdate, rollout_rows
from upturn.training.algorithms.ppo.credit import StepCredit, weighted_rows
from upturn.training.algorithms.ppo.credit_units import group_steps
from upturn.training.algorithms.ppo.critic_update import CriticUpdate
from upturn.training.algorithms.ppo.settings import PpoSettings
from upturn.training.data import Collect, Collector, attach_collect
from upturn.training.optimisation import (
    Critic,
    IterationSchedule,
    Trainer,
    count_sampled,
    frozen_scorer,
    is_masked,
    value_model,
)
from upturn.training.outcome import TrainingOutcome
from upturn.training.row import TrainingRow, policy_rows
from upturn.training.runs import Run, RunOptions, check_evaluation, identity_of, plan_of
from upturn.training.scorer import Scorer
from upturn.training.stream import NO_STATE, State, Unit, join_states, split_state


def run_ppo(
    model: PreTrainedModel,
    collect: Collect,
    settings: PpoSettings,
    options: RunOptions,
    *,
    critic: PreTrainedModel | None = None,
) -> TrainingOutcome:
    """Trains the model in place; resumes from the options' folder. Other arguments and guarantees are those of
    ``run_grpo``.

    ``critic``: a ``value_model`` from an earlier run, or sharded as the model is; it is trained in place, and
    resuming needs it with its initial weights. None = a new one, from the model, for the duration of the run.
    Checkpoints contain it. Groups may have any size: nothing is compared within them."""
    check_evaluation(options.evaluation, settings.evaluate_every)
    critic_optimiser = settings.critic.optimiser(settings.optimiser)
    rate = IterationSchedule(settings.decay, settings.iterations, settings.optimiser.warmup_steps)
    critic_rate = IterationSchedule(settings.decay, settings.iterations, critic_optimiser.warmup_steps)
    trainer = Trainer(model, settings.optimiser, rate)
    policy = ProximalPolicy(
        critic_rate.follow(rate.follow(collect)),
        settings,
        options.seed,
        critic=Critic(value_model(model) if critic is None else critic, critic_optimiser, critic_rate),
        scorer=None if settings.mismatch is None else trainer.score,
        reference=None if settings.objective.kl is None else frozen_scorer(trainer),
    )
    facts = {} if critic is None else {"critic": weights_hash(critic)}
    algorithm, collect_facts = attach_collect(policy, collect)
    identity = identity_of(trainer, "ppo", settings, seed=options.seed, **facts, **collect_facts)
    return Run(trainer, algorithm, plan_of(settings), identity, options).finish()


class ProximalPolicy:
    """Iterations as weight streams of the policy; also trains the critic. Single use: one run."""

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
        self._critic_update = CriticUpdate(critic, settings.critic, settings.credit, seed)
        # used for its checks and returns only: nothing is compared within a group
        self._collector = Collector(collect, GroupRelative(), "none")
        self._update = PolicyUpdate(settings.policy, seed, scorer=scorer, reference=reference)

    def unit(self, index: int) -> Unit:
        """Returns iteration ``index``, after training the critic on it.

        Raises TrainingError for no trajectories, or unusable ones.
        """
        collected = self._collector.collect(index)
        groups = [compared.group for compared in collected.sampled]
        steps = [group_steps(group, self.settings.credit.step, _zero_rows) for group in groups]
        credit = self._critic_update.credit_and_train(index, steps)
        is_alone = index < self.settings.critic.alone_iterations
        update = self._update.unit(
            index,
            [] if is_alone else self._rows(groups, credit.groups),
            count_sampled(groups, self.settings.objective),
        )
        metrics = sampled_metrics(collected, self.settings.objective)
        return Unit(update.minibatches, {**metrics, **credit.metrics, **update.metrics})

    def state(self) -> State:
        """Returns the states of the critic and of an adaptive KL coefficient."""
        return join_states({"critic": self._critic_update.state(), "update": self._update.state()})

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``."""
        states = split_state(state)
        self._critic_update.load_state(states.get("critic", NO_STATE))
        self._update.load_state(states.get("update", NO_STATE))

    def _rows(
        self, groups: Sequence[ScoredGroup], step_credits: Sequence[Sequence[StepCredit]]
    ) -> list[list[TrainingRow]]:
        """The policy's rows by group, on one scale; those of unscorable trajectories with weight 0."""
        weighted = iter(weighted_rows([credit for group in step_credits for credit in group], self.settings.credit))
        masked = {
            member.trajectory.id
            for group in groups
            for member in group.members
            if is_masked(member.trajectory, self.settings.objective)
        }
        return [
            [
                row
                for rows in (*islice(weighted, len(group_credits)), *_unscorable_rows(group))
                if not (rows and rows[0].trajectory_id in masked)
                for row in rollout_rows(rows, self.settings.objective)
            ]
            for group, group_credits in zip(groups, step_credits, strict=True)
        ]


def _zero_rows(trajectory: Trajectory) -> tuple[TrainingRow, ...]:
    """The rows with weight 0 for each token."""
    return policy_rows(trajectory, (0.0,) * len(trajectory.turns))


def _unscorable_rows(group: ScoredGroup) -> list[tuple[TrainingRow, ...]]:
    return [_zero_rows(member.trajectory) for member in group.members if not member.is_scorable]
