"""The exact reverse KL divergence to a teacher over the whole vocabulary, at each written token's history.

The teacher runs in this process, on the rows of each micro-batch, and needs the vocabulary of the trained model.
Logits of both exist for one chunk of predictions at a time. Not for several processes: the teacher is not sharded.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.training.optimisation.batch import MicroBatch
from upturn.training.optimisation.forward import Forward
from upturn.training.optimisation.logprob_head import CHUNK_NUMBERS, Read
from upturn.training.row import TrainingRow


class DistributionTeacher:
    """A frozen model whose whole next-token distributions are compared with those of the trained model."""

    def __init__(self, model: PreTrainedModel, settings: OptimiserSettings) -> None:
        """``settings``: packing, precision and size of its passes."""
        self.model = model
        self._head: nn.Module = model.get_output_embeddings()
        self._forward = Forward(model, packing=settings.packing, precision=settings.precision)
        self._budget = settings.micro_batch_tokens

    def check(self, model: PreTrainedModel) -> None:
        """Raises TrainingError where the trained model has another number of logits."""
        own: Any = model.config
        other: Any = self.model.config
        if own.vocab_size != other.vocab_size:
            raise TrainingError(
                f"the teacher has {other.vocab_size} logits, the trained model {own.vocab_size}: their whole "
                "distributions cannot be compared; take the teacher's estimator='sampled'"
            )

    def outputs(self, forward: Forward, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        """``(N,)`` each, with gradient: log π of the batch's written tokens, and KL(π ‖ π_teacher) before each.

        To be called and differentiated within ``forward.prepare(batch)``.
        """
        states = torch.cat(self._states(batch.rows))
        first = np.unique(batch.copies, return_index=True)[1]  # a written token of each distinct prediction
        with _reading(forward, self._read(states[torch.from_numpy(first).to(states.device)])):
            both = forward.logprobs(batch)
        return both[:, 0], both[:, 1]

    def _read(self, states: Tensor) -> Read:
        """``states``: the teacher's, ``(U, d)`` with its own d."""

        def read(head: nn.Module, hidden: Tensor, targets: Tensor) -> Tensor:
            size = max(1, CHUNK_NUMBERS // self._vocabulary)
            parts = [
                checkpoint(_compare, head, own, self._head, other, chosen, use_reentrant=False)
                for own, other, chosen in zip(
                    hidden.split(size), states.split(size), targets.split(size), strict=True
                )
            ]
            return torch.cat(parts)

        return read

    @property
    def _vocabulary(self) -> int:
        config: Any = self.model.config
        size: int = config.vocab_size
        return size

    @torch.no_grad()
    def _states(self, rows: Sequence[TrainingRow]) -> list[Tensor]:
        """``(A, d)`` for each row: the teacher's last hidden state before each written token."""
        index_of = {id(row): index for index, row in enumerate(rows)}
        states: list[Tensor] = [torch.empty(0)] * len(rows)
        self.model.train()  # as the trained model; there is no dropout
        for batch in self._forward.batches(rows, self._budget):
            with self._forward.prepare(batch), _reading(self._forward, _hidden_state):
                output = self._forward.logprobs(batch)
            for row, part in zip(batch.rows, output.split([len(row.positions) for row in batch.rows]), strict=True):
                states[index_of[id(row)]] = part
        return states


def _hidden_state(_head: nn.Module, hidden: Tensor, _targets: Tensor) -> Tensor:
    return hidden


def _compare(  # noqa: PLR0917  # checkpointed, by position
    head: nn.Module, own: Tensor, teacher_head: nn.Module, other: Tensor, targets: Tensor
) -> Tensor:
    """``(C, 2)`` in float32: log π of the targets, and Σ_v π(v)·(log π(v) − log π_teacher(v))."""
    logprobs = head(own).float().log_softmax(-1)
    with torch.no_grad():
        reference = teacher_head(other).float().log_softmax(-1)
    divergences = (logprobs.exp() * (logprobs - reference)).sum(-1)
    return torch.stack([logprobs.gather(1, targets[:, None])[:, 0], divergences], dim=1)


@contextmanager
def _reading(forward: Forward, read: Read) -> Iterator[None]:
    """Makes the forward pass read something else than log-probs, which its checks of the model compare."""
    before = forward.read
    forward.read = read
    try:
        yield
    finally:
        forward.read = before
