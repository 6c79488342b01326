"""The requests being decoded, as arrays by slot, so that a step takes a few numpy operations."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from upturn.models.engine.backend import Block, Ints
from upturn.models.engine.sampler import sample, stream_of, uniforms
from upturn.models.model import GenerationRequest

SMALL = 256
"""Tokens, padding included, below which one block is cheaper than two."""

ItemT = TypeVar("ItemT")


class Finished(NamedTuple):
    """A slot that wrote its last token."""

    slot: int
    is_stopped: bool
    """True = a stop token; False = its budget is used up."""


class Continuation(NamedTuple):
    """The tokens a slot wrote."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


class LiveRows:
    """The slots being decoded. Arrays of slots are in ascending order."""

    def __init__(self, slots: int, max_length: int) -> None:
        self._ids_SC: Ints = np.zeros((slots, max_length), dtype=np.int64)
        self._logprobs_SC = np.zeros((slots, max_length), dtype=np.float32)
        self._counts_S: Ints = np.zeros(slots, dtype=np.int64)
        """Tokens written."""
        self._budgets_S: Ints = np.zeros(slots, dtype=np.int64)
        self._stops_SK: Ints = np.full((slots, 1), -1, dtype=np.int64)
        self._temperatures_S = np.zeros(slots)
        self._streams_S: npt.NDArray[np.uint64] = np.zeros(slots, dtype=np.uint64)
        self._drawn_S: Ints = np.zeros(slots, dtype=np.int64)
        """Random numbers used before the start, by an interrupted call."""
        self._last_S: Ints = np.zeros(slots, dtype=np.int64)
        self._is_live_S: npt.NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)

    def start(self, slot: int, request: GenerationRequest, budget: int) -> None:
        """Starts decoding in the slot, at most ``budget`` tokens."""
        stops = request.stop_ids
        more = len(stops) - self._stops_SK.shape[1]
        if more > 0:
            self._stops_SK = np.pad(self._stops_SK, ((0, 0), (0, more)), constant_values=-1)
        self._stops_SK[slot] = -1
        self._stops_SK[slot, : len(stops)] = stops
        self._budgets_S[slot] = budget
        self._temperatures_S[slot] = request.temperature
        self._streams_S[slot] = stream_of(request.seed)
        self._drawn_S[slot] = request.drawn
        self._counts_S[slot] = 0
        self._is_live_S[slot] = True

    def stop(self, slot: int) -> None:
        """Stops decoding in the slot."""
        self._is_live_S[slot] = False

    def clear(self) -> None:
        """Stops decoding in every slot."""
        self._is_live_S[:] = False

    def decoding(self) -> Ints:
        """Live slots with at least one token written."""
        return np.flatnonzero(self._is_live_S & (self._counts_S > 0))

    def last_ids(self, slots_B: Ints) -> Ints:
        """The last token of each slot."""
        return self._last_S[slots_B]

    def write(self, slots_B: Ints, logits_BV: torch.Tensor) -> list[Finished]:
        """Samples the next token of these live slots; returns those that finished, which are no longer live.

        Raises ModelError for logits that are not finite.
        """
        counts_B = self._counts_S[slots_B]
        draws_B = uniforms(self._streams_S[slots_B], counts_B + self._drawn_S[slots_B])
        ids_B, logprobs_B = sample(logits_BV, self._temperatures_S[slots_B], draws_B)
        self._last_S[slots_B] = ids_B
        self._ids_SC[slots_B, counts_B] = ids_B
        self._logprobs_SC[slots_B, counts_B] = logprobs_B
        self._counts_S[slots_B] = counts_B + 1
        is_stopped_B = (self._stops_SK[slots_B] == ids_B[:, None]).any(axis=1)
        done = np.flatnonzero(is_stopped_B | (counts_B + 1 == self._budgets_S[slots_B]))
        self._is_live_S[slots_B[done]] = False
        return [Finished(int(slots_B[row]), bool(is_stopped_B[row])) for row in done]

    def written(self, slot: int) -> Continuation:
        """The tokens the slot wrote since its last start."""
        count = self._counts_S[slot]
        ids, logprobs = self._ids_SC[slot, :count], self._logprobs_SC[slot, :count]
        return Continuation(tuple(ids.tolist()), tuple(logprobs.tolist()))


def group_by_length(items: Sequence[ItemT], length: Callable[[ItemT], int], limit: int) -> list[list[ItemT]]:
    """Groups of similar length, split before padding doubles the work or a group exceeds ``limit`` tokens.

    Shortest first; items of equal length keep their order.
    """
    groups: list[list[ItemT]] = []
    real = 0
    for item in sorted(items, key=length):
        new = length(item)
        padded = new * (len(groups[-1]) + 1) if groups else 0
        if groups and padded <= min(max(2 * (real + new), SMALL), limit):
            groups[-1].append(item)
            real += new
        else:
            groups.append([item])
            real = new
    return groups


def prefill_block(slots_B: Ints, starts_B: Ints, prompts: Sequence[Ints]) -> Block:
    """The uncached prompt tokens of each slot."""
    counts_B = np.array([len(prompt) for prompt in prompts]) - starts_B
    ids_N = np.concatenate([prompt[start:] for prompt, start in zip(prompts, starts_B.tolist(), strict=True)])
    return Block(slots_B, starts_B, counts_B, ids_N)
