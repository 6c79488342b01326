"""The contract of a forward pass with a cache. ``direct`` computes it itself, ``modules`` runs the model's.

A slot is a sequence of tokens with their keys and values. Letters: S slots, B rows of a block (each another slot),
N tokens, V vocabulary.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

Ints = npt.NDArray[np.int64]


class Block(NamedTuple):
    """Rows of one forward pass; no row attends to another's tokens."""

    slots: Ints
    """``(B,)``"""
    starts: Ints
    """``(B,)``: tokens already cached in each slot."""
    counts: Ints
    """``(B,)``: new tokens of each, at least 1."""
    ids: Ints | torch.Tensor
    """``(N,)``: the new tokens, row after row; N is the sum of the counts. A tensor is on the model's device:
    tokens that were sampled there and that the host has not read yet."""


class Backend(Protocol):
    """A causal language model over slots. ``refresh`` must be called after each change of its weights."""

    def refresh(self) -> None:
        """Takes the model's current weights; every slot must be empty."""

    def forward(self, blocks: Sequence[Block]) -> torch.Tensor:
        """``(ΣB, V)``: logits after each row's last token, block after block. No slot may occur in two rows.

        The slots hold the new tokens afterwards.
        """

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """The targets hold the first ``length`` tokens of the source afterwards, and nothing else."""

    def cut(self, slot: int, length: int) -> None:
        """The slot holds its first ``length`` tokens afterwards; it may have held fewer only if ``length`` is 0."""

    def clear(self) -> None:
        """Every slot is empty afterwards."""

    def wipe(self) -> None:
        """As ``clear``, after a failed pass: memory that may hold non-finite values is overwritten."""
