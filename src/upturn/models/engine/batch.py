"""The requests being decoded, as arrays by slot, so that a step takes a few numpy operations."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from upturn.errors import ModelError
from upturn.models.engine.backend import Block, Ints
from upturn.models.engine.sampling import (
    Decode,
    Grammars,
    Sampled,
    SlotOptions,
    StopStrings,
    on_device,
    sample,
    stream_of,
    uniforms,
)
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
    sampling_logprobs: tuple[float, ...]
    """Empty where the tokens were drawn from the distribution of ``logprobs``, or greedily."""


class Read(NamedTuple):
    """What the host learns from one read of sampled tokens. Arrays are ``(R,)``."""

    slots: Ints
    """Slots with a new token."""
    cached_ids: Ints
    """The token before it, which the backend has cached since; −1 for a slot's first token."""
    finished: list[Finished]


class _Pending(NamedTuple):
    """Sampled tokens on their way from the device."""

    slots: Ints
    starts: Ints
    """``LiveRows._starts_S`` of the slots at that time: a slot that was started again ignores its earlier
    tokens."""
    counts: Ints
    """Tokens written before, by slot."""
    sampled: Sampled
    event: torch.Event | None
    """None = the tensors can be read."""


class LiveRows:
    """The slots being decoded.

    The host reads sampled tokens ``lag`` steps after they were sampled: with a lag of 0 at once, otherwise without
    waiting for the device. Until then a slot continues, also after its last token; what it writes then is dropped.
    """

    def __init__(
        self,
        slots: int,
        max_length: int,
        *,
        device: torch.device | None = None,
        lag: int = 0,
        decode: Decode | None = None,
        grammars: Grammars | None = None,
    ) -> None:
        """``device``: of the logits; None = the CPU. ``decode``: for stop strings; ``grammars``: for calls; None =
        no request has any."""
        self.lag = lag
        self._device = device or torch.device("cpu")
        self._ids_SC: Ints = np.zeros((slots, max_length), dtype=np.int64)
        self._logprobs_SC = np.zeros((slots, max_length), dtype=np.float32)
        self._sampling_logprobs_SC = np.zeros((slots, max_length), dtype=np.float32)
        self._counts_S: Ints = np.zeros(slots, dtype=np.int64)
        """Tokens sampled."""
        self._read_S: Ints = np.zeros(slots, dtype=np.int64)
        """Tokens read."""
        self._starts_S: Ints = np.zeros(slots, dtype=np.int64)
        """How often decoding started."""
        self._prompts_S: Ints = np.zeros(slots, dtype=np.int64)
        """Tokens of the prompt."""
        self._budgets_S: Ints = np.zeros(slots, dtype=np.int64)
        self._stops_SK: Ints = np.full((slots, 1), -1, dtype=np.int64)
        self._temperatures_S = np.zeros(slots)
        self._streams_S: npt.NDArray[np.uint64] = np.zeros(slots, dtype=np.uint64)
        self._drawn_S: Ints = np.zeros(slots, dtype=np.int64)
        """Random numbers used before the start, by an interrupted call."""
        self._last_S = torch.zeros(slots, dtype=torch.int64, device=self._device)
        self._is_live_S: npt.NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)
        self._has_own_distribution_S: npt.NDArray[np.bool_] = np.zeros(slots, dtype=np.bool_)
        """True = tokens are drawn from another distribution than the model's at temperature 1."""
        self._decode = decode
        self._stop_strings: dict[int, StopStrings] = {}
        self._options = SlotOptions(slots, self._device, grammars)
        self._pending: deque[_Pending] = deque()

    def start(self, slot: int, request: GenerationRequest, budget: int) -> None:
        """Starts decoding in the slot, at most ``budget`` tokens."""
        stops = request.stop_ids
        more = len(stops) - self._stops_SK.shape[1]
        if more > 0:
            self._stops_SK = np.pad(self._stops_SK, ((0, 0), (0, more)), constant_values=-1)
        self._stops_SK[slot] = -1
        self._stops_SK[slot, : len(stops)] = stops
        self._prompts_S[slot] = len(request.prompt_ids)
        self._budgets_S[slot] = budget
        self._temperatures_S[slot] = request.temperature
        self._streams_S[slot] = stream_of(request.seed)
        self._drawn_S[slot] = request.drawn
        self._counts_S[slot] = self._read_S[slot] = 0
        self._starts_S[slot] += 1
        self._is_live_S[slot] = True
        self._has_own_distribution_S[slot] = request.temperature != 0.0 and not request.is_sampled_from_model
        self._options.start(slot, request)
        self._stop_strings.pop(slot, None)
        if request.sampling.stop:
            assert self._decode is not None
            self._stop_strings[slot] = StopStrings(request.sampling.stop, self._decode)
            for token in request.prompt_ids[len(request.prompt_ids) - request.drawn :]:
                self._stop_strings[slot].push(token)  # of the interrupted call, in which a stop string may begin

    def stop(self, slot: int) -> None:
        """Stops decoding in the slot."""
        self._is_live_S[slot] = False
        self._options.stop(slot)

    def clear(self) -> None:
        """Stops decoding in every slot."""
        self._is_live_S[:] = False
        self._pending.clear()

    def decoding(self) -> Ints:
        """Live slots with at least one token sampled, and room for another one."""
        return np.flatnonzero(self._is_live_S & (self._counts_S > 0) & (self._counts_S < self._budgets_S))

    def last_positions(self, slots_B: Ints) -> Ints:
        """The position of the last token of each slot in its context."""
        return self._prompts_S[slots_B] + self._counts_S[slots_B] - 1

    def last_ids(self, slots_B: Ints) -> torch.Tensor:
        """The last token of each slot, on the device."""
        return self._last_S[on_device(slots_B, self._device)]

    def unread(self, slot: int) -> int:
        """Tokens of the slot that were sampled and not read."""
        return int(self._counts_S[slot] - self._read_S[slot])

    def write(self, slots_B: Ints, logits_BV: torch.Tensor) -> list[Read]:
        """Samples the next token of these live slots; returns what was read of the tokens up to now.

        Finished slots are no longer live. Raises ModelError for logits that are not finite.
        """
        counts_B = self._counts_S[slots_B]
        draws_B = uniforms(self._streams_S[slots_B], counts_B + self._drawn_S[slots_B])
        temperatures_B = self._temperatures_S[slots_B]
        reshaped = self._options.reshape(slots_B, logits_BV, temperatures_B)
        sampled = sample(logits_BV, temperatures_B, draws_B, reshaped=reshaped)
        places_B = on_device(slots_B, self._device)
        self._last_S[places_B] = sampled.ids
        self._options.see(places_B, sampled.ids)
        self._counts_S[slots_B] = counts_B + 1
        self._pending.append(self._fetch(slots_B, counts_B, sampled))
        return self._read_until(0 if self._options.needs_tokens else self.lag)

    def flush(self) -> list[Read]:
        """Reads all sampled tokens."""
        return self._read_until(0)

    def written(self, slot: int) -> Continuation:
        """The tokens the slot wrote since its last start, as far as they were read."""
        count = self._read_S[slot]
        ids, logprobs = self._ids_SC[slot, :count], self._logprobs_SC[slot, :count]
        sampling = self._sampling_logprobs_SC[slot, : count if self._has_own_distribution_S[slot] else 0]
        return Continuation(tuple(ids.tolist()), tuple(logprobs.tolist()), tuple(sampling.tolist()))

    def _fetch(self, slots_B: Ints, counts_B: Ints, sampled: Sampled) -> _Pending:
        """Starts copying the sampled tokens to the host."""

        def copy(part: torch.Tensor) -> torch.Tensor:
            return part.to("cpu", non_blocking=True)

        sampling = sampled.sampling_logprobs
        host = Sampled(
            copy(sampled.ids),
            copy(sampled.logprobs),
            None if sampling is None else copy(sampling),
            copy(sampled.is_finite),
        )
        event = None
        if self._device.type != "cpu":
            event = torch.Event(self._device)
            event.record()
        return _Pending(slots_B, self._starts_S[slots_B], counts_B, host, event)

    def _read_until(self, remaining: int) -> list[Read]:
        reads = []
        while len(self._pending) > remaining:
            reads.append(self._read(self._pending.popleft()))
        return reads

    def _read(self, pending: _Pending) -> Read:
        if pending.event is not None:
            pending.event.synchronize()
        valid = np.flatnonzero(self._is_live_S[pending.slots] & (self._starts_S[pending.slots] == pending.starts))
        slots_R, counts_R = pending.slots[valid], pending.counts[valid]
        if not pending.sampled.is_finite.numpy()[valid].all():
            raise ModelError("the model's logits are not finite; its weights are damaged, or training diverged")
        ids_R = pending.sampled.ids.numpy()[valid]
        self._ids_SC[slots_R, counts_R] = ids_R
        self._logprobs_SC[slots_R, counts_R] = pending.sampled.logprobs.numpy()[valid]
        if pending.sampled.sampling_logprobs is not None:
            self._sampling_logprobs_SC[slots_R, counts_R] = pending.sampled.sampling_logprobs.numpy()[valid]
        self._read_S[slots_R] = counts_R + 1
        cached_R = np.where(counts_R > 0, self._ids_SC[slots_R, counts_R - 1], -1)
        is_stopped_R = (self._stops_SK[slots_R] == ids_R[:, None]).any(axis=1)
        if self._options.needs_tokens:
            for slot, token in zip(slots_R.tolist(), ids_R.tolist(), strict=True):
                self._options.take(slot, token)
        if self._stop_strings:
            for row, slot in enumerate(slots_R.tolist()):
                if slot in self._stop_strings and self._stop_strings[slot].push(int(ids_R[row])):
                    is_stopped_R[row] = True
        done = np.flatnonzero(is_stopped_R | (counts_R + 1 == self._budgets_S[slots_R]))
        for slot in slots_R[done].tolist():
            self.stop(slot)
        return Read(slots_R, cached_R, [Finished(int(slots_R[row]), bool(is_stopped_R[row])) for row in done])


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
