"""Whole weights beside sharded ones: a copy for whoever samples or saves, and weights as they once were.

Which process needs which: sampling, evaluating and saving need all weights in one process; a KL term needs the
weights from before training, in shards like the trained ones.
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.models.engine import full_tensor
from upturn.training.distributed import World, copied, put_back, weight_tensors, world_of
from upturn.training.optimisation.trainer import Trainer
from upturn.training.row import FloatArray, TrainingRow
from upturn.training.scorer import Scorer


class WholeCopy:
    """The model as one process needs it, whole: to sample from, to evaluate and to save.

    Made before the model is sharded, and refreshed before each use. One process: the model itself, always fresh.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        world: World | None,
        *,
        everywhere: bool = False,
        copy: PreTrainedModel | None = None,
    ) -> None:
        """``everywhere``: every process has one (to sample side by side); False = the first only.

        ``copy``: one of the same weights that this process has already; None = it is made where there is to be one.
        """
        if world_of(model) is not None:
            raise TrainingError("a sharded model cannot be copied; make its WholeCopy before it is sharded")
        self._trained = model
        self._world = world
        has_one = world is None or world.is_first or everywhere
        self._model = copy
        if self._model is None and has_one:
            self._model = model if world is None else deepcopy(model)

    @property
    def model(self) -> PreTrainedModel:
        """The copy. Raises TrainingError where there is none."""
        if self._model is None:
            raise TrainingError(
                "this process has no whole copy of the model; ask in the first process only, as ``shared`` does"
            )
        return self._model

    def refresh(self) -> None:
        """Gives the copy the weights as they are; every process must call it."""
        if self._world is None:
            return
        copied = {} if self._model is None else weight_tensors(self._model)
        with torch.no_grad():
            for name, tensor in weight_tensors(self._trained).items():
                whole = full_tensor(tensor)
                if name in copied:
                    copied[name].copy_(whole)


def frozen_scorer(trainer: Trainer) -> Scorer:
    """Scores with the weights as they are now, whatever the trainer does to its own later: a KL term's reference.

    Costs one more copy of the weights, in shards where they are sharded.
    """
    if trainer.world is None:
        return Trainer(deepcopy(trainer.model), trainer.settings).score
    return _Former(trainer).score


class _Former:
    """A sharded model cannot be copied: its weights change places with the present ones for each pass."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._former = copied(weight_tensors(trainer.model))

    def score(self, rows: Sequence[TrainingRow], /) -> Sequence[FloatArray]:
        model = self._trainer.model
        present = copied(weight_tensors(model))
        put_back(model, self._former)
        try:
            return self._trainer.score(rows)
        finally:
            put_back(model, present)
