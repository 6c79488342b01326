"""Direct preference optimisation in rounds, on pairs of the model's own trajectories.

Order of a round: groups are sampled with the present weights; a trained critic, if any, values their actions and is
trained on them (``action_value``); they are paired (``pair_mining``), the reference is the recorded one or is
computed, and the pairs are passed over in steps. A round without a pair takes no step of the policy."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.models.engine import weights_hash
from upturn.training.advantage import ScoredGroup, mean_return
from upturn.training.algorithms.dpo import PairBatches
from upturn.training.algorithms.online_dpo.action_value import ActionCritic
from upturn.training.algorithms.online_dpo.settings import OnlineDpoSettings
from upturn.training.data import (
    ActionValues,
    Collect,
    MinedPairs,
    add_reference,
    attach_collect,
    mine_pairs,
    pair_rows,
)
from upturn.training.optimisation import IterationSchedule, Trainer, frozen_scorer, value_model
from upturn.training.outcome import TrainingOutcome
from upturn.training.runs import Run, RunOptions, check_evaluation, identity_of, plan_of
from upturn.training.scorer import Scorer
from upturn.training.signature import signature
from upturn.training.stream import NO_STATE, Minibatch, State, Unit, join_states, split_state


class PreferenceRounds:
    """Rounds as weight streams. Single use: one run."""

    def __init__(
        self,
        collect: Collect,
        settings: OnlineDpoSettings,
        seed: int,
        *,
        critic: ActionValues | ActionCritic | None = None,
        reference: Scorer | None = None,
    ) -> None:
        """``critic``: for ``monte_carlo_share`` below 1; trained or fixed. ``reference``: None = the recorded
        log-probs."""
        self.settings = settings
        self.seed = seed
        self.critic = critic
        self._collect = collect
        self._reference = reference

    def unit(self, index: int) -> Unit:
        """Returns round ``index``. Raises TrainingError for no trajectories, or unusable ones."""
        groups = self._collect(index)
        trajectories = sum(len(group.members) for group in groups)
        if not trajectories:
            raise TrainingError(f"round {index} collected no trajectories; collect at least one group")
        metrics = {
            "trajectories": float(trajectories),
            "groups": float(len(groups)),
            "mean_return": mean_return(groups),
        }
        mined = self._mine_pairs(index, groups, metrics)
        metrics |= mined.metrics()
        if not mined.pairs:
            return Unit([], metrics)
        pairs = pair_rows(mined.pairs, self.settings.objective, self.settings.reference)
        metrics["trained_rows"] = float(sum(len(pair.rows) for pair in pairs))
        if self._reference is not None:
            pairs = add_reference(pairs, self._reference)
        batches = PairBatches(pairs, self.settings.batch_pairs, self.settings.objective)
        return Unit(self._minibatches(index, batches), metrics)

    def state(self) -> State:
        """Returns the state of a trained critic."""
        return join_states({"critic": self.critic.state()}) if isinstance(self.critic, ActionCritic) else NO_STATE

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``."""
        if isinstance(self.critic, ActionCritic):
            self.critic.load_state(split_state(state).get("critic", NO_STATE))

    def _mine_pairs(self, index: int, groups: Sequence[ScoredGroup], metrics: dict[str, float]) -> MinedPairs:
        """The round's pairs. Trains a trained critic, and adds its metrics to ``metrics``."""
        settings, critic = self.settings.pairs, self.critic
        if not isinstance(critic, ActionCritic):
            return mine_pairs(groups, settings, critic)
        values = critic.value_actions(index, groups)
        metrics |= values.metrics
        if index < critic.alone_rounds:
            return mine_pairs(groups, replace(settings, monte_carlo_share=1.0))
        return mine_pairs(groups, settings, values)

    def _minibatches(self, index: int, batches: PairBatches) -> list[Minibatch]:
        rng = np.random.default_rng([self.seed, index])
        orders = [rng.permutation(len(batches.pairs)).tolist() for _ in range(self.settings.epochs)]
        return [
            batches.minibatch(order[start : start + batches.size])
            for order in orders
            for start in range(0, len(order), batches.size)
        ]


def run_online_dpo(
    model: PreTrainedModel,
    collect: Collect,
    settings: OnlineDpoSettings,
    options: RunOptions,
    *,
    critic: ActionValues | PreTrainedModel | None = None,
) -> TrainingOutcome:
    """Trains the model in place; resumes from the options' folder. A unit is a round.

    ``collect(round)`` samples groups with the model's current weights, from round 0 (checkpoints contain the state
    of a ``StatefulCollect``); ``evaluate(rounds)`` returns the score after that many, first with 0. All may depend
    on their arguments, the seed and the weights only. With reference='initial' a copy of the initial model is kept.
    Resuming needs the model with its initial weights, the same settings and seed. Raises TrainingError.

    ``critic``: with ``settings.critic`` a ``value_model`` to train, as for ``run_ppo``, None = a new one; otherwise
    a fixed critic, whose class and options are part of the run's identity."""
    check_evaluation(options.evaluation, settings.evaluate_every)
    rate = IterationSchedule(settings.decay, settings.iterations, settings.optimiser.warmup_steps)
    trainer = Trainer(model, settings.optimiser, rate)
    facts: dict[str, object] = {}
    if critic is not None:
        facts["critic"] = weights_hash(critic) if isinstance(critic, PreTrainedModel) else signature(critic)
    rounds = PreferenceRounds(
        rate.follow(collect),
        settings,
        options.seed,
        critic=_create_critic(model, critic, settings, seed=options.seed),
        reference=frozen_scorer(trainer) if settings.reference == "initial" else None,
    )
    algorithm, collect_facts = attach_collect(rounds, collect)
    identity = identity_of(trainer, "dpo rounds", settings, seed=options.seed, **facts, **collect_facts)
    return Run(trainer, algorithm, plan_of(settings, "round"), identity, options).finish()


def _create_critic(
    model: PreTrainedModel, critic: ActionValues | PreTrainedModel | None, settings: OnlineDpoSettings, *, seed: int
) -> ActionValues | ActionCritic | None:
    """Raises TrainingError for a critic without effect."""
    is_trained = settings.critic is not None
    if is_trained and (critic is None or isinstance(critic, PreTrainedModel)):
        return ActionCritic(value_model(model) if critic is None else critic, settings, seed)
    if is_trained or isinstance(critic, PreTrainedModel):
        raise TrainingError(
            f"critic is a {type(critic).__name__} with settings.critic={settings.critic!r}: a value model is "
            "trained as settings.critic says, any other critic is fixed; give both or neither"
        )
    if settings.pairs.monte_carlo_share == 0 and settings.pairs.gamma != 1:
        raise TrainingError(
            f"pairs.gamma={settings.pairs.gamma!r} would do nothing with pairs.monte_carlo_share=0 and a fixed "
            "critic; leave it out"
        )
    return critic
