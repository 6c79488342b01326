"""A ``Backend`` that computes the decoder itself, with one copy of prefixes that several slots share.

A slot holds a prefix of a row of ``shared`` (possibly empty), then columns of its row of ``own``. The rollouts of a
group attend to their prompt together: its keys are read once a step for all of them. The rows of a pass are flat,
without padding; only attention pads, within a block.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.models.engine.attention import Part, Read, attend_cached, attend_new, join
from upturn.models.engine.backend import Block, Ints
from upturn.models.engine.decoder import Decoder, layer_windows
from upturn.models.engine.replay import Replays, replays_for
from upturn.models.engine.sampling import on_device
from upturn.models.engine.store import Store

_MIN_SHARED = 128
"""Tokens from which a prefix is shared instead of copied: the extra part of attention costs as much as reading
about 150 tokens for each of 64 rows."""
_DENSE = 2
"""A contiguous range of rows is read in place while it is at most this many times the needed rows."""
_COLUMNS = 64
"""Own columns of a recorded step are a multiple of this."""
_HIDDEN = -1e30
"""Added to scores of columns outside a window. Finite: a row may see no column of a part, and then its log-sum-exp
is so small that the other parts decide."""


class _Plan(NamedTuple):
    """A block with the indices that its attention needs in every layer with this window."""

    first: int
    """Index of its first token in the pass."""
    stop: int
    length: int
    """L: new tokens of the longest row."""
    pad: Tensor | None
    """``(B·L,)``: the token of each cell of the grid B × L; None = the rows are equally long."""
    flat: Tensor | None
    """``(tokens,)``: the cell of each token in that grid; None = as above."""
    own: Read | None
    """Own columns to read: with L = 1 the cached ones and the new one, else the cached ones. None = there are
    none."""
    shared: Read | None
    window: int | None
    """None = no query of the block has earlier tokens outside the window."""


class _Pass(NamedTuple):
    """The inputs of a pass, on the device."""

    ids: Tensor
    positions: Tensor
    indices: Tensor
    """Where the new keys and values are stored, see ``Store.indices``."""
    last: Tensor | None
    """The tokens whose logits are needed; None = all."""
    plans: dict[int | None, list[_Plan]]
    """A plan for each block, by window."""


class DirectModel:
    """See ``Backend``. Each slot has a row of ``own``; rows of ``shared`` are assigned as groups appear."""

    def __init__(
        self, model: PreTrainedModel, slots: int, max_length: int, *, replays: Replays | None = None
    ) -> None:
        """``decoder.unsupported_reason`` must be None for the model.

        ``replays``: of decoding steps; None = as its device can.
        """
        self._decoder = Decoder(model, max_length)
        self._replays = replays_for(self._decoder.device) if replays is None else replays
        self._windows = layer_windows(model)
        shape, like = self._decoder.shape, self._decoder.like
        self._slots = slots
        self._own = Store(shape.layers, shape.groups, shape.size, like=like)
        self._shared = Store(shape.layers, shape.groups, shape.size, like=like)
        self._lengths_S: Ints = np.zeros(slots, dtype=np.int64)
        """Tokens cached in each slot."""
        self._shared_S: Ints = np.zeros(slots, dtype=np.int64)
        """How many of them are in a shared row."""
        self._row_S: Ints = np.full(slots, -1, dtype=np.int64)
        """The shared row; −1 = none."""
        self._own_row_S: Ints = np.arange(slots)
        """Each slot's row of ``own``."""

    def refresh(self) -> None:
        """See ``Backend``."""
        self._decoder.refresh()
        if self._replays is not None:
            self._replays.clear()

    def clear(self) -> None:
        """See ``Backend``."""
        self._lengths_S[:] = 0
        self._shared_S[:] = 0
        self._row_S[:] = -1
        self._own_row_S[:] = np.arange(self._slots)

    def wipe(self) -> None:
        """See ``Backend``."""
        self.clear()
        self._own.forget()
        self._shared.forget()

    def stored_columns(self) -> tuple[int, int]:
        """Tokens whose keys and values are cached in shared rows, and in own rows."""
        rows = {row: int(self._shared_S[self._row_S == row].max()) for row in set(self._row_S.tolist()) - {-1}}
        return sum(rows.values()), int((self._lengths_S - self._shared_S).sum())

    def cut(self, slot: int, length: int) -> None:
        """See ``Backend``."""
        self._lengths_S[slot] = length
        self._shared_S[slot] = min(int(self._shared_S[slot]), length)
        if self._shared_S[slot] == 0:
            self._row_S[slot] = -1

    def copy(self, source: int, targets: Sequence[int], length: int) -> None:
        """See ``Backend``. Moves the source's prefix to a shared row where that is worthwhile."""
        for target in targets:
            self.cut(target, 0)
        if length - int(self._shared_S[source]) >= _MIN_SHARED:
            self._share(source, length)
        shared = min(int(self._shared_S[source]), length)
        own = length - shared
        self._reserve_own(own)
        slots = list(targets)
        if own:
            self._own.copy_rows(int(self._own_row_S[source]), self._tensor(self._own_row_S[slots]), own)
        self._lengths_S[slots] = length
        self._shared_S[slots] = shared
        self._row_S[slots] = self._row_S[source] if shared else -1

    def forward(self, blocks: Sequence[Block]) -> Tensor:
        """See ``Backend``."""
        given = self._prepare(blocks)
        is_decoding = len(blocks) == 1 and bool((blocks[0].counts == 1).all())
        if self._replays is not None and is_decoding:
            logits = self._replays.run(self._compute, given)
        else:
            logits = self._compute(given)
        for block in blocks:
            self._lengths_S[block.slots] = block.starts + block.counts
        return logits

    def _prepare(self, blocks: Sequence[Block]) -> _Pass:
        slots_N = np.concatenate([np.repeat(block.slots, block.counts) for block in blocks])
        positions_N = np.concatenate([_positions(block) for block in blocks])
        columns_N = positions_N - self._shared_S[slots_N]
        self._reserve_own(int(columns_N.max()) + 1)
        self._compact_rows(np.concatenate([block.slots for block in blocks]))
        last = None
        if len(slots_N) > sum(len(block.slots) for block in blocks):
            last = self._tensor(np.cumsum(np.concatenate([block.counts for block in blocks])) - 1)
        return _Pass(
            torch.cat([torch.as_tensor(block.ids, device=self._decoder.device) for block in blocks]),
            self._tensor(positions_N),
            self._own.indices(self._tensor(self._own_row_S[slots_N]), self._tensor(columns_N)),
            last,
            {window: self._plans(blocks, window) for window in set(self._windows)},
        )

    def _compute(self, given: _Pass) -> Tensor:
        def attend(layer: int, query: Tensor, heads: Tensor) -> Tensor:
            self._own.write(layer, given.indices, heads)
            outputs = [
                self._attend(plan, layer, query[plan.first : plan.stop], heads[plan.first : plan.stop])
                for plan in given.plans[self._windows[layer]]
            ]
            return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

        hidden = self._decoder.hidden(given.ids, given.positions, attend)
        return self._decoder.logits(hidden if given.last is None else hidden.index_select(0, given.last))

    def _attend(self, plan: _Plan, layer: int, query: Tensor, heads: Tensor) -> Tensor:
        """``(tokens, H·D)`` for the tokens of one block."""
        if plan.pad is not None:
            query, heads = query.index_select(0, plan.pad), heads.index_select(0, plan.pad)
        query = query.unflatten(0, (-1, plan.length))
        parts: list[Part] = []
        if plan.length > 1:
            heads = heads.unflatten(0, (-1, plan.length))
            groups = self._decoder.shape.groups
            parts.append(attend_new(query, heads[:, :, :groups], heads[:, :, groups:], window=plan.window))
        for store, read in ((self._own, plan.own), (self._shared, plan.shared)):
            if read is not None:
                parts.append(attend_cached(query, store.read(layer, read.rows, read.columns), read))
        output = join(parts).to(query.dtype).reshape(-1, query.shape[2] * query.shape[3])
        return output if plan.flat is None else output.index_select(0, plan.flat)

    def _plans(self, blocks: Sequence[Block], window: int | None) -> list[_Plan]:
        plans: list[_Plan] = []
        for block in blocks:
            plans.append(self._plan(block, plans[-1].stop if plans else 0, window))
        return plans

    def _plan(self, block: Block, first: int, window: int | None) -> _Plan:
        counts_B, slots_B = block.counts, block.slots
        length = int(counts_B.max())
        pad = flat = None
        if length > 1 and int(counts_B.min()) < length:
            ends_B = np.cumsum(counts_B)
            steps_L = np.minimum(np.arange(length), counts_B[:, None] - 1)
            pad = self._tensor((steps_L + (ends_B - counts_B)[:, None]).ravel())
            flat = self._tensor(np.flatnonzero(np.arange(length) < counts_B[:, None]))
        shared_B = self._shared_S[slots_B]
        seen_B = block.starts - shared_B + (1 if length == 1 else 0)
        low_BL = None
        if window is not None and int((block.starts + counts_B).max()) > window:
            low_BL = block.starts[:, None] + np.minimum(np.arange(length), counts_B[:, None] - 1) - window + 1
        return _Plan(
            first,
            first + int(counts_B.sum()),
            length,
            pad,
            flat,
            self._read_own(
                self._own_row_S[slots_B], seen_B, None if low_BL is None else low_BL - shared_B[:, None]
            ),
            self._read_shared(self._row_S[slots_B], shared_B, low_BL),
            None if low_BL is None else window,
        )

    def _read_own(self, rows_B: Ints, seen_B: Ints, low_BL: Ints | None) -> Read | None:
        """Row b attends to the first ``seen_B`` columns of row ``rows_B`` of ``own``, which no other row reads.

        ``low_BL``: the first column in the window of each new token; None = all are.
        """
        if not seen_B.any():
            return None
        low, count = int(rows_B.min()), int(np.ptp(rows_B)) + 1
        if count <= _DENSE * len(rows_B):
            rows: slice | Tensor = slice(low, low + count)
            line_B = rows_B - low
        else:
            rows, line_B, count = self._tensor(rows_B), np.arange(len(rows_B)), len(rows_B)
        gather_R = np.zeros(count, dtype=np.int64)  # unused rows repeat another row's computation
        gather_R[line_B] = np.arange(len(rows_B))
        seen_R = np.maximum(seen_B, 1)[gather_R]
        is_straight = count == len(rows_B) and bool((line_B == np.arange(count)).all())
        columns = int(seen_B.max())
        if self._replays is not None:  # columns that are masked, so that many steps have the same shape
            columns = min((columns // _COLUMNS + 1) * _COLUMNS, self._own.columns)
        return Read(
            rows,
            columns,
            1,
            None if is_straight else self._tensor(gather_R),
            None if is_straight else self._tensor(line_B),
            self._mask(seen_R[:, None], columns, None if low_BL is None else low_BL[gather_R][:, None]),
            self._bias(seen_B),
        )

    def _read_shared(self, rows_B: Ints, seen_B: Ints, low_BL: Ints | None) -> Read | None:
        """Row b attends to the first ``seen_B`` columns of row ``rows_B`` of ``shared``; 0 = none. ``low_BL``: as
        for ``_read_own``."""
        members = np.flatnonzero(seen_B)
        if len(members) == 0:
            return None
        distinct, line_M = np.unique(rows_B[members], return_inverse=True)
        low, count = int(distinct[0]), int(distinct[-1] - distinct[0]) + 1
        if count <= _DENSE * len(distinct):
            rows: slice | Tensor = slice(low, low + count)
            line_M = rows_B[members] - low
        else:
            rows, count = self._tensor(distinct), len(distinct)
        order = np.argsort(line_M, kind="stable")
        sizes_R = np.bincount(line_M, minlength=count)
        readers = int(sizes_R.max())
        firsts_R = np.cumsum(sizes_R) - sizes_R
        # Cells without a reader repeat the line's first reader; lines without readers repeat another line's.
        steps_RA = np.minimum(np.arange(readers), np.maximum(sizes_R - 1, 0)[:, None])
        gather_RA = members[order][np.minimum(firsts_R[:, None] + steps_RA, len(members) - 1)]
        scatter_B = np.zeros(len(rows_B), dtype=np.int64)
        scatter_B[members[order]] = line_M[order] * readers + np.arange(len(members)) - firsts_R[line_M[order]]
        columns = int(seen_B.max())
        return Read(
            rows,
            columns,
            readers,
            self._tensor(gather_RA.ravel()),
            self._tensor(scatter_B),
            self._mask(seen_B[gather_RA], columns, None if low_BL is None else low_BL[gather_RA]),
            self._bias(seen_B),
        )

    def _bias(self, seen_B: Ints) -> Tensor | None:
        if seen_B.all():
            return None
        return torch.where(self._tensor(seen_B) > 0, 0.0, -torch.inf)[:, None, None]

    def _mask(self, seen_RA: Ints, columns: int, low_RAL: Ints | None) -> Tensor | None:
        if low_RAL is not None and int(low_RAL.max()) > 0:
            return self._window_mask(seen_RA, columns, low_RAL)
        if int(seen_RA.min()) == columns:
            return None
        if (seen_RA == seen_RA[:, :1]).all():
            seen_RA = seen_RA[:, :1]
        is_hidden = torch.arange(columns, device=self._decoder.device) >= self._tensor(seen_RA)[:, None, :, None]
        return torch.zeros((), device=self._decoder.device).masked_fill(is_hidden, -torch.inf)

    def _window_mask(self, seen_RA: Ints, columns: int, low_RAL: Ints) -> Tensor:
        """``(R, 1, A·L, W)``: the columns from ``low_RAL`` to ``seen_RA`` are attended."""
        column_W = torch.arange(columns, device=self._decoder.device)
        low, seen = self._tensor(low_RAL)[..., None], self._tensor(seen_RA)[..., None, None]
        is_hidden = (column_W < low) | (column_W >= seen)
        return torch.zeros((), device=self._decoder.device).masked_fill(is_hidden, _HIDDEN).flatten(1, 2)[:, None]

    def _compact_rows(self, slots_B: Ints) -> None:
        """Makes the rows of these slots contiguous where they are scattered: reading scattered rows copies them."""
        rows_B, count = self._own_row_S[slots_B], len(slots_B)
        if int(rows_B.max()) < _DENSE * count:
            return
        high = np.sort(rows_B[rows_B >= count])
        low = np.setdiff1d(np.arange(count), rows_B)
        self._own.swap_rows(self._tensor(low), self._tensor(high), int((self._lengths_S - self._shared_S).max()))
        slot_of = np.argsort(self._own_row_S)
        self._own_row_S[slot_of[low]], self._own_row_S[slot_of[high]] = high, low

    def _reserve_own(self, columns: int) -> None:
        if self._own.reserve(self._slots, columns) and self._replays is not None:
            self._replays.clear()

    def _share(self, slot: int, length: int) -> None:
        """Moves the first ``length`` tokens of the slot to a new shared row."""
        used = set(self._row_S.tolist())
        row = next(row for row in range(self._slots + 1) if row not in used)
        if self._shared.reserve(row + 1, length) and self._replays is not None:
            self._replays.clear()
        before, old = int(self._shared_S[slot]), int(self._row_S[slot])
        own, rest = length - before, int(self._lengths_S[slot]) - length
        own_row = int(self._own_row_S[slot])
        for layer in self._own.layers:
            if before:
                self._shared.columns_of(layer, row, 0, before).copy_(self._shared.columns_of(layer, old, 0, before))
            moved = self._own.columns_of(layer, own_row, 0, own + rest)
            self._shared.columns_of(layer, row, before, length).copy_(moved[:, :, :own])
            if rest:
                moved[:, :, :rest] = moved[:, :, own:].clone()
        self._row_S[slot], self._shared_S[slot] = row, length

    def _tensor(self, array: Ints) -> Tensor:
        return on_device(array, self._decoder.device)


def _positions(block: Block) -> Ints:
    ends_B = np.cumsum(block.counts)
    return np.arange(int(ends_B[-1])) + np.repeat(block.starts - ends_B + block.counts, block.counts)
