"""Values of single actions by a critic that is trained on the same rounds (``ActionValues``).

Q(h, a) = r + γ·V(h′),

with r the turn's reward and V the critic's value of the next state, computed at the first written token of the next
turn; after the last turn it is 0. V is fitted to the returns of trajectories, without any bootstrap, and only after
the round was valued: no value has been fitted to the outcome of its own trajectory.

Departure from Agent Q (arXiv 2408.07199, section 4.2), whose critic is a language model prompted to rank the
actions of a node: this one is trained, needs no prompt, and values on the scale of the rewards."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from transformers import PreTrainedModel

from upturn.training.advantage import ScoredGroup
from upturn.training.algorithms.online_dpo.settings import OnlineDpoSettings
from upturn.training.algorithms.ppo import CreditSettings, CriticUpdate, group_steps
from upturn.training.optimisation import Critic, IterationSchedule
from upturn.training.row import turn_rows
from upturn.training.stream import State


class RoundValues(NamedTuple):
    """The critic's values of the actions of one round: an ``ActionValues`` for its trajectories."""

    values: Mapping[str, Sequence[float]]
    """By trajectory, then by turn; without unscorable trajectories."""
    metrics: Mapping[str, float]
    """Of the critic and its training."""

    def __call__(self, group: ScoredGroup, /) -> list[Sequence[float]]:
        """Returns values by member of a group of the round, then by turn."""
        return [self.values[member.trajectory.id] for member in group.members]


class ActionCritic:
    """A critic of actions that is trained on each round. Single use: one run."""

    def __init__(self, model: PreTrainedModel, settings: OnlineDpoSettings, seed: int) -> None:
        """``model``: from ``value_model``; is trained in place, by ``settings.critic``."""
        critic_settings = settings.critic
        assert critic_settings is not None  # by the caller
        self.alone_rounds = critic_settings.alone_iterations
        """First rounds, in which it is trained and its values are not used."""
        optimiser = critic_settings.optimiser(settings.optimiser)
        self._rate = IterationSchedule(settings.decay, settings.iterations, optimiser.warmup_steps)
        # r + γ·V(h′) is the λ-return with λ = 0, the return the one with λ = 1
        credit = CreditSettings("turn", gamma=settings.pairs.gamma, trace=0.0, value_trace=1.0)
        self._update = CriticUpdate(Critic(model, optimiser, self._rate), critic_settings, credit, seed)

    def value_actions(self, index: int, groups: Sequence[ScoredGroup]) -> RoundValues:
        """Returns the values of the actions of round ``index``, then trains the critic on it.

        Every turn of a scorable trajectory must have written tokens. Raises TrainingError for values that are not
        finite.
        """
        self._rate.iteration = index
        credit = self._update.credit_and_train(
            index, [group_steps(group, "turn", partial(turn_rows, weight=0.0)) for group in groups]
        )
        values = {
            step_credit.steps.rows[0].trajectory_id: (step_credit.values + step_credit.advantages).tolist()
            for group in credit.groups
            for step_credit in group
        }
        return RoundValues(values, credit.metrics)

    def state(self) -> State:
        """Returns the critic's weights, optimiser and steps."""
        return self._update.state()

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``."""
        self._update.load_state(state)
