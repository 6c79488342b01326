"""What single actions are worth by a critic that learns states' values from the same rounds (``ActionValues``).

    Q(h, a) = r + γ·V(h′),

with r what the turn earned and V the critic's value of the state after it, read where the next turn's first token
is written; after the last turn it is 0. V is fitted to what attempts really went on to earn, without any bootstrap,
and only after the round was judged: no action is judged by a value that has seen its own outcome.

Departure from Agent Q (arXiv 2408.07199, section 4.2), whose critic is a language model that is asked to rank the
actions of a node: this one is trained, asks nobody, and values on the scale of the rewards.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from transformers import PreTrainedModel

from upturn.training.advantage import ScoredGroup
from upturn.training.algorithms.online_dpo.settings import OnlineDpoSettings
from upturn.training.algorithms.ppo import Appraiser, CreditSettings, group_steps
from upturn.training.optimisation import Critic, IterationSchedule
from upturn.training.row import turn_rows
from upturn.training.stream import State


class JudgedActions(NamedTuple):
    """What the critic thought of the actions of one round: an ``ActionValues`` for the round's attempts."""

    values: Mapping[str, Sequence[float]]
    """By trajectory, then by turn. Attempts without a reward are not there."""
    metrics: Mapping[str, float]
    """What the critic was like, and how it learned."""

    def __call__(self, group: ScoredGroup, /) -> list[Sequence[float]]:
        """By member of a group of the round, then by turn."""
        return [self.values[member.trajectory.id] for member in group.members]


class ActionCritic:
    """A critic of actions that learns from each round. Single use: one run."""

    def __init__(self, model: PreTrainedModel, settings: OnlineDpoSettings, seed: int) -> None:
        """``model``: as ``value_model`` makes it; it is trained in place, as ``settings.critic`` says."""
        own = settings.critic
        assert own is not None  # by whoever makes one
        self.alone = own.alone_iterations
        """Rounds at the beginning in which it learns and is not asked."""
        optimiser = own.optimiser(settings.optimiser)
        self._rate = IterationSchedule(settings.decay, settings.iterations, optimiser.warmup_steps)
        # r + γ·V(h′) is the λ-return with λ = 0, what was really earned the one with λ = 1
        credit = CreditSettings("turn", gamma=settings.pairs.gamma, trace=0.0, value_trace=1.0)
        self._appraiser = Appraiser(Critic(model, optimiser, self._rate), own, credit, seed)

    def judge(self, index: int, groups: Sequence[ScoredGroup]) -> JudgedActions:
        """The actions of round ``index``, before the critic learned from it; it has when this returns.

        Every turn of an attempt that was scored must have written something. Raises TrainingError for values that
        are not finite.
        """
        self._rate.iteration = index
        found = self._appraiser.appraise(
            index, [group_steps(group, "turn", partial(turn_rows, weight=0.0)) for group in groups]
        )
        values = {
            each.steps.rows[0].trajectory_id: (each.values + each.advantages).tolist()
            for group in found.groups
            for each in group
        }
        return JudgedActions(values, found.metrics)

    def state(self) -> State:
        """The critic's weights, optimiser and steps."""
        return self._appraiser.state()

    def load_state(self, state: State) -> None:
        """Goes back to what ``state`` gave."""
        self._appraiser.load_state(state)
