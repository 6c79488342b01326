"""A critic: a network of its own that says what an attempt still earns from the state before a written token.

It is a copy of the policy's network with one number in place of the output layer, computed and optimised as the
policy is, with an optimiser of its own. Nothing is shared with the policy, so neither's gradient reaches the other.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.training.distributed import put_back, weight_tensors, world_of
from upturn.training.optimisation.logprob_head import state_values
from upturn.training.optimisation.trainer import StepMetrics, Trainer
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.stream import NO_STATE, Minibatch, State, joined, parted


def value_model(policy: PreTrainedModel) -> PreTrainedModel:
    """A copy of the policy whose output layer gives one number, 0 everywhere before it is trained.

    Zero is no guess at the returns: a drawn head would begin with noise as large as the rewards. The head is
    float32, whatever the policy is. Raises TrainingError for a sharded policy, which cannot be copied.
    """
    if world_of(policy) is not None:
        raise TrainingError(
            "the critic is a copy of the policy, and a sharded model cannot be copied: make the critic with "
            "value_model first, then shard both"
        )
    found = copy.deepcopy(policy)
    output: Any = found.get_output_embeddings()  # every output layer of transformers has a weight (V, d)
    # without drawing from torch's own generator, which belongs to whoever samples
    head = nn.utils.skip_init(nn.Linear, output.weight.shape[1], 1, device=policy.device, dtype=torch.float32)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    found.set_output_embeddings(head)
    found.config.tie_word_embeddings = False
    return found


class Critic:
    """Values of states, and how they are learned. Single use: one run. The model's weights change in place."""

    def __init__(
        self,
        model: PreTrainedModel,
        settings: OptimiserSettings,
        learning_rate_factor: Callable[[int], float] | None = None,
    ) -> None:
        """``model``: as ``value_model`` makes it, trained already or not; ``learning_rate_factor`` as for
        ``Trainer``. Raises TrainingError for a model whose output layer gives more than one number."""
        output: Any = model.get_output_embeddings()
        if len(output.weight) != 1:
            raise TrainingError(
                f"a critic gives one number for each state, the output layer of this {type(model).__name__} gives "
                f"{len(output.weight)}; make one from the policy with value_model"
            )
        self._trainer = Trainer(model, settings, learning_rate_factor, read=state_values)

    def values(self, rows: Sequence[TrainingRow]) -> list[FloatArray]:
        """``(A,)`` for each row: the value before each written token.

        Raises TrainingError for what is not finite.
        """
        found = self._trainer.score(rows)
        for row, values in zip(rows, found, strict=True):
            if not np.isfinite(values).all():
                raise TrainingError(
                    f"the critic gives {values[~np.isfinite(values)][0]!r} as a value in trajectory "
                    f"{row.trajectory_id!r}; no advantage can be told from that. Look for weights of the policy "
                    "that are not finite, or lower critic.learning_rate"
                )
        return found

    def learn(self, minibatches: Sequence[Minibatch]) -> list[StepMetrics]:
        """One optimiser step each, in order."""
        return [self._trainer.step(minibatch) for minibatch in minibatches]

    def state(self) -> State:
        """Weights, optimiser and steps, not copied."""
        own = self._trainer
        counted = {"steps": float(own.steps)}
        return joined({"count": counted, "weights": weight_tensors(own.model), "optimiser": own.state()})

    def load_state(self, state: State) -> None:
        """Goes back to what ``state`` gave. Raises TrainingError for a critic of another model, or for none."""
        parts = parted(state)
        put_back(self._trainer.model, _tensors(parts.get("weights", NO_STATE)))
        self._trainer.load_state(_tensors(parts.get("optimiser", NO_STATE)), int(parts["count"]["steps"]))


def _tensors(state: State) -> dict[str, Tensor]:
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}
