"""Direct preference optimisation in rounds: attempts of the model's own become pairs, which it learns from.

Order of a round: groups are collected with the weights as they are; a critic of the run's own judges their actions
and learns from them (``action_value``); they are paired (``preference``), the reference is taken as recorded or
computed, and the pairs are gone through in steps. A round without a pair takes no step of the policy.
"""

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
    Collecting,
    Pairing,
    StatefulCollect,
    pair_rows,
    pairs_of,
    refer,
)
from upturn.training.optimisation import IterationSchedule, Trainer, frozen_scorer, value_model
from upturn.training.outcome import TrainingOutcome
from upturn.training.runs import (
    Run,
    RunOptions,
    RunPlace,
    check_evaluation,
    identity_of,
    plan_of,
)
from upturn.training.scorer import Scorer
from upturn.training.signature import signature
from upturn.training.stream import NO_STATE, Algorithm, Minibatch, State, Unit, joined, parted


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
        """``critic``: for ``monte_carlo_share`` below 1; it learns, or does not. ``reference``: None = the recorded
        log-probs."""
        self.collect = collect
        self.settings = settings
        self.seed = seed
        self.critic = critic
        self.reference = reference

    def unit(self, index: int) -> Unit:
        """Round ``index``. Raises TrainingError when there is nothing, or something unusable, to train on."""
        groups = self.collect(index)
        if not any(group.members for group in groups):
            raise TrainingError(f"round {index} collected no trajectories; collect at least one group")
        metrics = _metrics(groups)
        pairing = self._paired(index, groups, metrics)
        metrics |= pairing.metrics()
        if not pairing.pairs:
            return Unit([], metrics)
        pairs = pair_rows(pairing.pairs, self.settings.objective, self.settings.reference)
        metrics["trained_rows"] = float(sum(len(pair.rows) for pair in pairs))
        if self.reference is not None:
            pairs = refer(pairs, self.reference)
        batches = PairBatches(pairs, self.settings.batch_pairs, self.settings.objective)
        return Unit(self._minibatches(index, batches), metrics)

    def state(self) -> State:
        """That of a critic that learns."""
        return joined({"critic": self.critic.state()}) if isinstance(self.critic, ActionCritic) else NO_STATE

    def load_state(self, state: State) -> None:
        """Gives it back."""
        if isinstance(self.critic, ActionCritic):
            self.critic.load_state(parted(state).get("critic", NO_STATE))

    def _paired(self, index: int, groups: Sequence[ScoredGroup], metrics: dict[str, float]) -> Pairing:
        """The round's pairs; a critic that learns has learned from it, which is added to ``metrics``."""
        asked, critic = self.settings.pairs, self.critic
        if isinstance(critic, ActionCritic):
            judged = critic.judge(index, groups)
            metrics |= judged.metrics
            if index < critic.alone:
                return pairs_of(groups, replace(asked, monte_carlo_share=1.0))
            return pairs_of(groups, asked, judged)
        return pairs_of(groups, asked, critic)

    def _minibatches(self, index: int, batches: PairBatches) -> list[Minibatch]:
        rng = np.random.default_rng([self.seed, index])
        orders = [rng.permutation(len(batches.pairs)).tolist() for _ in range(self.settings.epochs)]
        return [
            batches.minibatch(order[start : start + batches.size])
            for order in orders
            for start in range(0, len(order), batches.size)
        ]


def _metrics(groups: Sequence[ScoredGroup]) -> dict[str, float]:
    """Of all that was sampled."""
    members = [member for group in groups for member in group.members]
    return {
        "trajectories": float(len(members)),
        "groups": float(len(groups)),
        "mean_return": mean_return(groups),
    }


def run_online_dpo(
    model: PreTrainedModel,
    collect: Collect,
    settings: OnlineDpoSettings,
    options: RunOptions,
    *,
    critic: ActionValues | PreTrainedModel | None = None,
) -> TrainingOutcome:
    """Trains the model in place; resumes from the options' folder. A unit is a round.

    ``collect(round)`` samples groups with the model's current weights, from round 0 (what a ``StatefulCollect``
    remembers goes into the checkpoint); ``evaluate(rounds)`` gives the score after that many, first with 0. All may
    depend on their arguments, the seed and the weights only. With reference='initial' a copy of the model as it was
    is kept. Resuming needs the model as it was before training, the same settings and seed. Raises TrainingError.

    ``critic``: where ``settings.critic`` says how one learns, as for ``run_ppo``: a ``value_model``, None = a new
    one. Else one that does not learn, which belongs to what the run is by its class and options.
    """
    check_evaluation(options.evaluation, settings.evaluate_every)
    rate = IterationSchedule(settings.decay, settings.iterations, settings.optimiser.warmup_steps)
    trainer = Trainer(model, settings.optimiser, rate)
    further: dict[str, object] = {"seed": options.seed}
    if critic is not None:
        further["critic"] = weights_hash(critic) if isinstance(critic, PreTrainedModel) else signature(critic)
    algorithm: Algorithm = PreferenceRounds(
        rate.follow(collect),
        settings,
        options.seed,
        critic=_critic(model, critic, settings, seed=options.seed),
        reference=frozen_scorer(trainer) if settings.reference == "initial" else None,
    )
    plan = plan_of(settings, settings.iterations, "round")
    if isinstance(collect, StatefulCollect):
        algorithm, further = Collecting(algorithm, collect), {**further, **collect.identity()}
    identity = identity_of(trainer, "dpo rounds", settings, **further)
    return Run(
        trainer, algorithm, plan, RunPlace(options.folder, identity), options.evaluation, options.progress
    ).finish()


def _critic(
    model: PreTrainedModel,
    given: ActionValues | PreTrainedModel | None,
    settings: OnlineDpoSettings,
    *,
    seed: int,
) -> ActionValues | ActionCritic | None:
    """Raises TrainingError for one that the settings have no use for."""
    learns = settings.critic is not None
    if learns and (given is None or isinstance(given, PreTrainedModel)):
        return ActionCritic(value_model(model) if given is None else given, settings, seed)
    if learns or isinstance(given, PreTrainedModel):
        raise TrainingError(
            f"critic is a {type(given).__name__} with settings.critic={settings.critic!r}: a value model learns as "
            "settings.critic says, any other critic does not learn; give both or neither"
        )
    if settings.pairs.monte_carlo_share == 0 and settings.pairs.gamma != 1:
        raise TrainingError(
            f"pairs.gamma={settings.pairs.gamma!r} would do nothing with pairs.monte_carlo_share=0 and a critic "
            f"that "
            "does not learn; leave it out"
        )
    return given
