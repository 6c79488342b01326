"""A critic: a separate network that estimates the return from the state before a written token.

It is a copy of the policy network with a scalar output layer, computed and optimised like the policy, with its own
optimiser. It shares nothing with the policy, so neither's gradient reaches the other.
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
from upturn.training.distributed import restore_weights, weight_tensors, world_of
from upturn.training.optimisation.logprob_head import state_values
from upturn.training.optimisation.trainer import StepMetrics, Trainer
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.stream import NO_STATE, Minibatch, State, join_states, split_state


def value_model(policy: PreTrainedModel) -> PreTrainedModel:
    """A copy of the policy with a scalar output layer in float32, initialised to 0.

    A random head would start with noise as large as the rewards. Raises TrainingError for a sharded policy, which
    cannot be copied.
    """
    if world_of(policy) is not None:
        raise TrainingError(
            "the critic is a copy of the policy, and a sharded model cannot be copied: make the critic with "
            "value_model first, then shard both"
        )
    model = copy.deepcopy(policy)
    output: Any = model.get_output_embeddings()  # every output layer of transformers has a weight (V, d)
    # without drawing from torch's global generator, which sampling uses
    head = nn.utils.skip_init(nn.Linear, output.weight.shape[1], 1, device=policy.device, dtype=torch.float32)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    model.set_output_embeddings(head)
    model.config.tie_word_embeddings = False
    return model


class Critic:
    """Estimates state values and trains them. Single use: one run. The model's weights change in place."""

    def __init__(
        self,
        model: PreTrainedModel,
        settings: OptimiserSettings,
        learning_rate_factor: Callable[[int], float] | None = None,
    ) -> None:
        """``model``: from ``value_model``, trained or not; ``learning_rate_factor``: as for ``Trainer``.

        Raises TrainingError for a model whose output layer is not scalar.
        """
        output: Any = model.get_output_embeddings()
        if len(output.weight) != 1:
            raise TrainingError(
                f"a critic needs one output per state, the output layer of this {type(model).__name__} has "
                f"{len(output.weight)}; make one from the policy with value_model"
            )
        self._trainer = Trainer(model, settings, learning_rate_factor, read=state_values)

    def values(self, rows: Sequence[TrainingRow]) -> list[FloatArray]:
        """``(A,)`` for each row: the value before each written token.

        Raises TrainingError for values that are not finite.
        """
        scores = self._trainer.score(rows)
        for row, values in zip(rows, scores, strict=True):
            if not np.isfinite(values).all():
                raise TrainingError(
                    f"the critic's value {values[~np.isfinite(values)][0]!r} in trajectory {row.trajectory_id!r} "
                    "is not finite, so no advantage can be computed. Check the policy for non-finite weights, or "
                    "lower critic.learning_rate"
                )
        return scores

    def train(self, minibatches: Sequence[Minibatch]) -> list[StepMetrics]:
        """One optimiser step on each minibatch, in order."""
        return [self._trainer.step(minibatch) for minibatch in minibatches]

    def state(self) -> State:
        """Weights, optimiser and steps, not copied."""
        trainer = self._trainer
        counts = {"steps": float(trainer.steps)}
        return join_states(
            {"count": counts, "weights": weight_tensors(trainer.model), "optimiser": trainer.state()}
        )

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``. Raises TrainingError for a critic of another model, or none."""
        parts = split_state(state)
        restore_weights(self._trainer.model, _tensors(parts.get("weights", NO_STATE)))
        self._trainer.load_state(_tensors(parts.get("optimiser", NO_STATE)), int(parts["count"]["steps"]))


def _tensors(state: State) -> dict[str, Tensor]:
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}
