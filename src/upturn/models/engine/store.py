"""Memory for keys and values: rows of columns, allocated once and grown in place of being allocated for the worst.

Letters: R rows, K key-value heads, C columns, D head size, W columns that are read, N tokens that are written.
"""

import torch
from torch import Tensor

_STEP = 64
"""Columns that are added at once, at least; growing copies what is there."""


class Store:
    """One tensor ``(2, R, K, C, D)`` a layer: keys, then values. What was never written is 0."""

    def __init__(self, layers: int, heads: int, size: int, *, like: Tensor) -> None:
        """``size``: of a head. Type and device are those of ``like``."""
        self._heads = heads
        self._layers = [like.new_zeros((2, 0, heads, 0, size)) for _ in range(layers)]
        self._offsets_H: Tensor = torch.empty(0)
        self._measure()

    @property
    def rows(self) -> int:
        """Allocated."""
        return self._layers[0].shape[1]

    @property
    def columns(self) -> int:
        """Allocated for each row."""
        return self._layers[0].shape[3]

    def reserve(self, rows: int, columns: int) -> None:
        """Makes room for that many rows and columns; half as much again, so that growing stays rare."""
        more_rows = rows if self.rows == 0 or rows <= self.rows else max(rows, self.rows + self.rows // 2)
        more_columns = columns
        if columns > self.columns:
            more_columns = -(-max(columns, self.columns + self.columns // 2) // _STEP) * _STEP
        rows, columns = max(more_rows, self.rows), max(more_columns, self.columns)
        if (rows, columns) == (self.rows, self.columns):
            return
        for index, old in enumerate(self._layers):
            new = old.new_zeros((2, rows, self._heads, columns, old.shape[4]))
            new[:, : old.shape[1], :, : old.shape[3]] = old
            self._layers[index] = new
        self._measure()

    def places(self, rows_N: Tensor, columns_N: Tensor) -> Tensor:
        """``(N, 2K)``: where each token's keys, then its values lie; for ``write``, the same in every layer."""
        firsts_N = rows_N * (self._heads * self.columns) + columns_N
        return firsts_N[:, None] + self._offsets_H

    def write(self, layer: int, places: Tensor, heads: Tensor) -> None:
        """``heads``: ``(N, 2K, D)``, each token's keys, then its values."""
        stored = self._layers[layer]
        stored.view(-1, stored.shape[4])[places] = heads

    def read(self, layer: int, rows: slice | Tensor, columns: int) -> tuple[Tensor, Tensor]:
        """Keys and values ``(R, K, W, D)`` of the rows; a slice of rows is not copied."""
        stored = self._layers[layer]
        if isinstance(rows, slice):
            found = stored[:, rows, :, :columns]
        else:
            found = stored[:, :, :, :columns].index_select(1, rows)
        return found[0], found[1]

    def columns_of(self, layer: int, row: int, start: int, stop: int) -> Tensor:
        """``(2, K, stop - start, D)``, not copied."""
        return self._layers[layer][:, row, :, start:stop]

    def copy_rows(self, source: int, targets: Tensor, columns: int) -> None:
        """The first columns of a row, to others."""
        for stored in self._layers:
            stored[:, targets, :, :columns] = stored[:, source : source + 1, :, :columns]

    def swap_rows(self, first: Tensor, second: Tensor, columns: int) -> None:
        """The first columns of pairs of rows trade places; no row stands in two pairs."""
        rows, others = torch.cat([first, second]), torch.cat([second, first])
        for stored in self._layers:
            stored[:, rows, :, :columns] = stored[:, others, :, :columns]

    def forget(self) -> None:
        """Overwrites everything with 0: what is hidden by a mask must at least be finite."""
        for stored in self._layers:
            stored.zero_()

    @property
    def layers(self) -> range:
        """Indices of the layers."""
        return range(len(self._layers))

    def _measure(self) -> None:
        stored = self._layers[0]
        heads = torch.arange(2 * self._heads, device=stored.device)
        value, head = heads // self._heads, heads % self._heads
        self._offsets_H = (value * self.rows * self._heads + head) * self.columns
