"""The exact reverse KL divergence to a teacher over the whole vocabulary, at each written token's history.

The teacher runs in this process, on the rows of each micro-batch, and needs the vocabulary of the trained model.
Logits of both exist for one chunk of predictions at a time. Not for several processes: the teacher is not sharded.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
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
        self._head: Any = None
        """From its states to logits; known after its first pass."""
        self._forward = Forward(model, packing=settings.packing, precision=settings.precision)
        self._budget = settings.micro_batch_tokens

    def check(self, model: PreTrainedModel) -> None:
        """Raises TrainingError where the trained model has another number of logits."""
        own: Any = model.config.get_text_config(decoder=True)
        other: Any = self.model.config.get_text_config(decoder=True)
        if own.vocab_size != other.vocab_size:
            raise TrainingError(
                f"the teacher has {other.vocab_size} logits, the trained model {own.vocab_size}: their whole "
                "distributions cannot be compared; take the teacher's estimator='sampled'"
            )

    def outputs(self, forward: Forward, batch: MicroBatch) -> tuple[Tensor, Tensor, Tensor]:
        """``(N,)`` each, with gradient: log π of the batch's written tokens, KL(π ‖ π_teacher) before each, and the
        entropy of π there, in nats. π has the temperature of the rows, the teacher has 1.

        To be called and differentiated within ``forward.prepare(batch)``.
        """
        states = torch.cat(self._states(batch.rows))
        first = np.unique(batch.copies, return_index=True)[1]  # a written token of each distinct prediction
        with _reading(forward, self._read(states[torch.from_numpy(first).to(states.device)])):
            logprobs, divergences, entropies = forward.logprobs(batch)
        return logprobs, divergences, entropies

    def _read(self, states: Tensor) -> Read:
        """``states``: the teacher's, ``(U, d)`` with its own d."""

        def read(head: Any, hidden: Tensor, targets: Tensor, *, temperatures: Tensor | None = None) -> Tensor:
            size = max(1, CHUNK_NUMBERS // self._vocabulary)
            heats = torch.ones_like(targets, dtype=torch.float32) if temperatures is None else temperatures
            split = (tensor.split(size) for tensor in (hidden, states, targets, heats))
            parts = [
                checkpoint(_compare, (head, self._head), own, other, chosen, heat, use_reentrant=False)
                for own, other, chosen, heat in zip(*split, strict=True)
            ]
            return torch.cat(parts, dim=1)

        return read

    @property
    def _vocabulary(self) -> int:
        config: Any = self.model.config.get_text_config(decoder=True)
        size: int = config.vocab_size
        return size

    @torch.no_grad()
    def _states(self, rows: Sequence[TrainingRow]) -> list[Tensor]:
        """``(A, d)`` for each row: the teacher's last hidden state before each written token."""
        index_of = {id(row): index for index, row in enumerate(rows)}
        states: list[Tensor] = [torch.empty(0)] * len(rows)
        self.model.train()  # as the trained model; there is no dropout
        for batch in self._forward.batches(rows, self._budget):
            with self._forward.prepare(batch), _reading(self._forward, self._take_states):
                output = self._forward.logprobs(batch).transpose(0, 1)
            for row, part in zip(batch.rows, output.split([len(row.positions) for row in batch.rows]), strict=True):
                states[index_of[id(row)]] = part
        return states

    def _take_states(
        self,
        head: Any,
        hidden: Tensor,
        targets: Tensor,  # noqa: ARG002  # a ``Read``
        *,
        temperatures: Tensor | None = None,  # noqa: ARG002  # as above
    ) -> Tensor:
        self._head = head
        return hidden.transpose(0, 1)


def _compare(  # noqa: PLR0917  # checkpointed, by position
    heads: tuple[Any, Any], own: Tensor, other: Tensor, targets: Tensor, temperatures: Tensor
) -> Tensor:
    """``(3, C)`` in float32: log π of the targets, Σ_v π(v)·(log π(v) − log π_teacher(v)), −Σ_v π(v)·log π(v).

    ``heads``: of the trained model and of the teacher.
    """
    head, teacher_head = heads
    logprobs = (head(own).float() / temperatures[:, None]).log_softmax(-1)
    with torch.no_grad():
        reference = teacher_head(other).float().log_softmax(-1)
    probabilities = logprobs.exp()
    divergences = (probabilities * (logprobs - reference)).sum(-1)
    entropies = -(probabilities * logprobs).sum(-1)
    return torch.stack([logprobs.gather(1, targets[:, None])[:, 0], divergences, entropies])


@contextmanager
def _reading(forward: Forward, read: Read) -> Iterator[None]:
    """Makes the forward pass read something else than log-probs, which its checks of the model compare."""
    before = forward.read
    forward.read = read
    try:
        yield
    finally:
        forward.read = before
