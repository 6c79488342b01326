"""Full copies of sharded weights, and frozen reference weights.

Sampling, evaluation and saving need all weights in one process; a KL term needs the reference weights from before
training, sharded like the trained ones.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.models.engine import full_tensor
from upturn.training.distributed import World, copy_tensors, restore_weights, weight_tensors, world_of
from upturn.training.optimisation.adapter import is_untrained
from upturn.training.optimisation.trainer import Trainer
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.scorer import Scorer


class FullCopy:
    """An unsharded copy of the model in one process, for sampling, evaluation and saving.

    Made before the model is sharded, and refreshed before each use. In a single process: the model itself.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        world: World | None,
        *,
        everywhere: bool = False,
        copy: PreTrainedModel | None = None,
    ) -> None:
        """``everywhere``: every process has a copy; False = the first only.

        ``copy``: an existing model with the same weights in this process; None = copy the model where needed.
        """
        if world_of(model) is not None:
            raise TrainingError("a sharded model cannot be copied; make its FullCopy before it is sharded")
        self._trained = model
        self._world = world
        has_one = world is None or world.is_first or everywhere
        self._model = copy
        if self._model is None and has_one:
            self._model = model if world is None else deepcopy(model)

    @property
    def model(self) -> PreTrainedModel:
        """The copy. Raises TrainingError in a process without one."""
        if self._model is None:
            raise TrainingError(
                "this process has no full copy of the model; use it in the first process only (``Rank0Calls``)"
            )
        return self._model

    def refresh(self) -> None:
        """Updates the copy to the current weights; a collective call."""
        if self._world is None:
            return
        copies = {} if self._model is None else weight_tensors(self._model)
        with torch.no_grad():
            for name, tensor in weight_tensors(self._trained).items():
                full = full_tensor(tensor)
                if name in copies:
                    copies[name].copy_(full)


def frozen_scorer(trainer: Trainer) -> Scorer:
    """A scorer with the current weights, frozen: the reference of a KL term.

    Costs one more copy of the weights, except for a model with an untrained adapter, which is switched off for each
    pass. A sharded model cannot be copied: its frozen weights, also sharded, are swapped in for each pass.
    """
    if trainer.world is None and is_untrained(trainer.model):
        return trainer.score_without_adapter
    if trainer.world is None:
        return Trainer(deepcopy(trainer.model), trainer.settings).score
    frozen = copy_tensors(weight_tensors(trainer.model))

    def score(rows: Sequence[TrainingRow], /) -> Sequence[FloatArray]:
        current = copy_tensors(weight_tensors(trainer.model))
        restore_weights(trainer.model, frozen)
        try:
            return trainer.score(rows)
        finally:
            restore_weights(trainer.model, current)

    return score
